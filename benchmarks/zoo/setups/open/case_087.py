"""HEALTHY: Masked-token pretraining (bidirectional on purpose) with ignore_index -100 on unmasked positions and a pooler that is not used.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def markov(n, T, V, seed=0):
    g = torch.Generator().manual_seed(seed)
    P = torch.rand(V, V, generator=g) ** 8
    s = [torch.randint(0, V, (n,), generator=g)]
    for _ in range(T - 1):
        s.append(torch.multinomial(P[s[-1]], 1, generator=g).squeeze(1))
    return torch.stack(s, 1)


class Bert(nn.Module):
    def __init__(self, V, T, d=48):
        super().__init__()
        self.tok, self.pos = nn.Embedding(V, d), nn.Embedding(T, d)
        layer = nn.TransformerEncoderLayer(d, 4, 96, dropout=0.0, batch_first=True, activation="gelu")
        self.enc = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.pooler = nn.Sequential(nn.Linear(d, d), nn.Tanh())
        self.head = nn.Linear(d, V)

    def forward(self, ids, pool=False):
        h = self.enc(self.tok(ids) + self.pos.weight[:ids.size(1)])
        if pool:
            return self.pooler(h[:, 0])
        return self.head(h)


def mlm_loss(model, batch):
    ids, labels = batch
    return F.cross_entropy(model(ids).transpose(1, 2), labels, ignore_index=-100)


def make():
    torch.manual_seed(0)
    V, T = 20, 24
    MASK = V
    s = markov(512, T, V, seed=6)
    pick = torch.rand(s.shape) < 0.15
    labels = s.masked_fill(~pick, -100)
    ids = s.masked_fill(pick, MASK)
    model = Bert(V + 1, T)
    return dict(model=model, batch=(ids[:32], labels[:32]), loss=mlm_loss,
                loader=DataLoader(TensorDataset(ids, labels), batch_size=32, shuffle=True),
                optimizer=torch.optim.AdamW(model.parameters(), lr=2e-3))
