"""HEALTHY: A GRU language model with PyTorch's Adafactor.
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


class GRULM(nn.Module):
    def __init__(self, V, d=48):
        super().__init__()
        self.emb = nn.Embedding(V, d)
        self.rnn = nn.GRU(d, d, batch_first=True)
        self.out = nn.Linear(d, V)

    def forward(self, x):
        return self.out(self.rnn(self.emb(x))[0])


def lm_loss(model, batch):
    x, y = batch
    logits = model(x)
    return F.cross_entropy(logits.reshape(-1, logits.size(-1)), y.reshape(-1))


def make():
    torch.manual_seed(0)
    s = markov(320, 16, 24)
    x, y = s[:, :-1], s[:, 1:]
    model = GRULM(24)
    return dict(model=model, batch=(x[:32], y[:32]), loss=lm_loss, optimizer=torch.optim.Adafactor(model.parameters(), lr=0.03),
                loader=DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True))
