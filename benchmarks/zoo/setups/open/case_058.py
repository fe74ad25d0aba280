"""BROKEN: The attention weights are normalised over the query axis instead of the key axis.
An expert would want to hear: softmax dim is wrong (dim=-2): weights of a query do not sum to one; use dim=-1.
Accept also: attention rows do not sum to 1; softmax over the wrong dimension.
Does not count: "bad attention".
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def tagged_sentences(n, T, V, K, seed=0):
    g = torch.Generator().manual_seed(seed)
    tok = torch.randint(1, V, (n, T), generator=g)
    cls = torch.randint(0, K, (V,), generator=g)
    prev = torch.roll(tok, 1, 1)
    prev[:, 0] = 0
    tag = (cls[tok] + (prev % 2)) % K
    return tok, tag


class AttnTagger(nn.Module):
    def __init__(self, V, K, T, d=48):
        super().__init__()
        self.emb = nn.Embedding(V, d)
        self.pos = nn.Parameter(0.1 * torch.randn(T, d))
        self.q, self.k, self.v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.ff = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 96), nn.ReLU(), nn.Linear(96, K))

    def forward(self, tok):
        x = self.emb(tok) + self.pos
        s = self.q(x) @ self.k(x).transpose(1, 2) / x.size(-1) ** 0.5
        w = s.softmax(dim=1)
        return self.ff(x + w @ self.v(x))


def loss_fn(model, batch):
    return F.cross_entropy(model(batch[0]).transpose(1, 2), batch[1])


def make():
    torch.manual_seed(0)
    tok, tag = tagged_sentences(400, 16, 50, 5)
    model = AttnTagger(50, 5, 16)
    return dict(model=model, batch=(tok[:40], tag[:40]), loss=loss_fn, optimizer=torch.optim.Adam(model.parameters(), lr=2e-3),
                loader=DataLoader(TensorDataset(tok, tag), batch_size=40, shuffle=True))
