"""BROKEN: nll_loss is applied to softmax probabilities (the log is missing).
An expert would want to hear: F.nll_loss needs log-probabilities; with probabilities the loss is -p in [-1, 0] and has weak
gradients; use log_softmax.
Accept also: softmax instead of log_softmax.
Does not count: "loss negative" only.
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


class RNNLM(nn.Module):
    def __init__(self, V, d=48):
        super().__init__()
        self.emb = nn.Embedding(V, d)
        self.rnn = nn.GRU(d, d, batch_first=True)
        self.out = nn.Linear(d, V)

    def forward(self, x):
        return F.softmax(self.out(self.rnn(self.emb(x))[0]), dim=-1)


def loss_fn(model, batch):
    x, y = batch
    return F.nll_loss(model(x).flatten(0, 1), y.flatten())


def make():
    torch.manual_seed(0)
    s = markov(320, 21, 30)
    x, y = s[:, :-1], s[:, 1:]
    model = RNNLM(30)
    return dict(model=model, batch=(x[:32], y[:32]), loss=loss_fn, optimizer=torch.optim.Adam(model.parameters(), lr=2e-3),
                loader=DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True))
