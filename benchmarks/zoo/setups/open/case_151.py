"""HEALTHY: Model that returns log-probabilities and is trained with NLLLoss.
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
    def __init__(self, V, K):
        super().__init__()
        self.emb = nn.Embedding(V, 32)
        self.rnn = nn.GRU(32, 48, batch_first=True)
        self.out = nn.Linear(48, K)

    def forward(self, t):
        return F.log_softmax(self.out(self.rnn(self.emb(t))[0]), dim=-1)


def make():
    torch.manual_seed(0)
    tok, tag = tagged_sentences(400, 12, 40, 5)
    crit = nn.NLLLoss()
    model = Tagger(40, 5)

    def loss_fn(model, batch):
        return crit(model(batch[0]).flatten(0, 1), batch[1].flatten())
    return dict(model=model, batch=(tok[:40], tag[:40]), loss=loss_fn, optimizer=torch.optim.Adam(model.parameters(), lr=5e-3),
                loader=DataLoader(TensorDataset(tok, tag), batch_size=40, shuffle=True))
