"""BROKEN: The key padding mask is inverted: real tokens are hidden and the padding is attended.
An expert would want to hear: src_key_padding_mask must be True at pads, here it is True at real tokens, so the encoder
attends only to pads; use tok == PAD.
Accept also: mask polarity wrong; padding attended, tokens masked.
Does not count: "poor accuracy", "missing signal" only.
"""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


PAD = 0


class SentenceEncoder(nn.Module):
    def __init__(self, V, k, T, d=48):
        super().__init__()
        self.emb = nn.Embedding(V, d)
        self.cls = nn.Parameter(0.02 * torch.randn(1, 1, d))
        layer = nn.TransformerEncoderLayer(d, 4, 96, dropout=0.1, batch_first=True)
        self.enc = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.fc = nn.Linear(d, k)

    def forward(self, tok):
        x = torch.cat([self.cls.expand(len(tok), -1, -1), self.emb(tok)], 1)
        mask = torch.cat([torch.zeros(len(tok), 1, dtype=torch.bool), tok != PAD], 1)
        return self.fc(self.enc(x, src_key_padding_mask=mask)[:, 0])


def make():
    torch.manual_seed(0)
    V, k, T, n = 60, 3, 20, 600
    y = torch.randint(0, k, (n,))
    tok = torch.randint(1, V, (n, T))
    hit = torch.rand(n, T) < 0.3
    tok[hit] = (1 + y[:, None] * 5 + torch.randint(0, 5, (n, T)))[hit]
    lens = torch.randint(8, T + 1, (n,))
    tok[torch.arange(T)[None] >= lens[:, None]] = PAD
    model = SentenceEncoder(V, k, T)
    return dict(model=model, batch=(tok[:40], y[:40]), loss=nn.CrossEntropyLoss(),
                loader=DataLoader(TensorDataset(tok, y), batch_size=40, shuffle=True),
                optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3))
