"""HEALTHY: A transformer with fixed sinusoidal positions in a buffer and embeddings scaled by sqrt(d), gradients clipped to 1.
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


class Tagger(nn.Module):
    def __init__(self, V, K, T, d=48):
        super().__init__()
        self.emb = nn.Embedding(V, d)
        nn.init.normal_(self.emb.weight, std=d ** -0.5)
        p, i = torch.arange(T).float()[:, None], torch.arange(0, d, 2).float()
        a = p / 10000 ** (i / d)
        self.register_buffer("pos", torch.cat([a.sin(), a.cos()], 1))
        layer = nn.TransformerEncoderLayer(d, 4, 96, dropout=0.0, batch_first=True, norm_first=True)
        self.enc = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(d), enable_nested_tensor=False)
        self.out = nn.Linear(d, K)

    def forward(self, t):
        h = self.emb(t) * self.emb.embedding_dim ** 0.5 + self.pos
        return self.out(self.enc(h))


def make():
    torch.manual_seed(0)
    tok, tag = tagged_sentences(400, 12, 40, 4)
    model = Tagger(40, 4, 12)

    def loss_fn(model, batch):
        return F.cross_entropy(model(batch[0]).transpose(1, 2), batch[1])

    def step(model, batch, optimizer):
        optimizer.zero_grad()
        loss = loss_fn(model, batch)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss
    return dict(model=model, batch=(tok[:40], tag[:40]), loss=loss_fn, step=step, optimizer=torch.optim.AdamW(model.parameters(), lr=2e-3),
                loader=DataLoader(TensorDataset(tok, tag), batch_size=40, shuffle=True))
