"""BROKEN: The class label is contained in the input sequence as its last token.
An expert would want to hear: the prompt still contains the answer token, so the classifier reads the label off the
input; leakage; cut it.
Accept also: input contains the target; label leak in the sequence.
Does not count: "converges too fast" alone.
"""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class TextClassifier(nn.Module):
    def __init__(self, V, k, T, d=48):
        super().__init__()
        self.emb = nn.Embedding(V, d)
        self.pos = nn.Parameter(0.02 * torch.randn(T, d))
        layer = nn.TransformerEncoderLayer(d, 4, 96, dropout=0.0, batch_first=True, norm_first=True)
        self.enc = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.fc = nn.Linear(d, k)

    def forward(self, tok):
        h = self.enc(self.emb(tok) + self.pos[:tok.size(1)])
        return self.fc(h[:, -1])


def make():
    torch.manual_seed(0)
    V, k, T = 100, 4, 24
    body = torch.randint(k, V, (600, T))
    y = (body < 30).sum(1).clamp(4, 7) - 4
    sep = torch.full((600, 1), V)
    tok = torch.cat([body, sep, y[:, None]], 1)
    loader = DataLoader(TensorDataset(tok[:480], y[:480]), batch_size=32, shuffle=True)
    val = DataLoader(TensorDataset(tok[480:], y[480:]), batch_size=60)
    model = TextClassifier(V + 1, k, T + 2)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    return dict(model=model, batch=(tok[:32], y[:32]), loss=nn.CrossEntropyLoss(), optimizer=opt, loader=loader,
                val_loader=val)
