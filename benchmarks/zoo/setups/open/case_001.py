"""BROKEN: Padding tokens are attended to and mean-pooled, as no padding mask is used.
An expert would want to hear: the output of a sentence depends on how much it is padded; pads take most of attention and
of the mean; pass a key padding mask and pool with it.
Accept also: no padding mask; padding leaks into the representation; pooled mean over pads.
Does not count: "noisy training".
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader


class Classifier(nn.Module):
    def __init__(self, V, k, d=32):
        super().__init__()
        self.emb = nn.Embedding(V, d)
        self.attn = nn.MultiheadAttention(d, 4, batch_first=True)
        self.ln = nn.LayerNorm(d)
        self.fc = nn.Sequential(nn.Linear(d, 64), nn.ReLU(), nn.Linear(64, k))

    def forward(self, tok):
        x = self.emb(tok)
        x = self.ln(x + self.attn(x, x, x, need_weights=False)[0])
        return self.fc(x.mean(1))


def pad_collate(items):
    seqs, ys = zip(*items)
    tok = nn.utils.rnn.pad_sequence(seqs, batch_first=True, padding_value=0)
    if tok.size(1) < 128:
        tok = F.pad(tok, (0, 128 - tok.size(1)))
    return tok, torch.stack(ys)


def make():
    torch.manual_seed(0)
    items = []
    for _ in range(400):
        y = torch.randint(0, 4, ())
        n = int(torch.randint(3, 20, ()))
        s = torch.randint(1, 50, (n,))
        s[torch.rand(n) < 0.4] = 1 + 7 * int(y)
        items.append((s, y))
    loader = DataLoader(items, batch_size=40, shuffle=True, collate_fn=pad_collate)
    model = Classifier(50, 4)
    return dict(model=model, batch=next(iter(loader)), loss=nn.CrossEntropyLoss(), loader=loader,
                optimizer=torch.optim.Adam(model.parameters(), lr=1e-3))
