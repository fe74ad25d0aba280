"""HEALTHY: A language model with 5000 words and batches of 4 sentences; most embedding rows get no gradient in a step.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class LM(nn.Module):
    def __init__(self, V, d=64):
        super().__init__()
        self.emb = nn.Embedding(V, d)
        nn.init.normal_(self.emb.weight, std=0.1)
        self.rnn = nn.GRU(d, d, batch_first=True)
        self.out = nn.Linear(d, V, bias=False)
        self.out.weight = self.emb.weight

    def forward(self, x):
        return self.out(self.rnn(self.emb(x))[0])


def loss_fn(model, batch):
    x, y = batch
    return F.cross_entropy(model(x).transpose(1, 2), y)


def make():
    torch.manual_seed(0)
    V, T = 5000, 20
    freq = 1.0 / (torch.arange(V) + 3.0)
    s = torch.multinomial(freq.expand(160, -1), T + 1, replacement=True)
    s[:, 1::2] = (s[:, 0:-1:2] * 7 + 1) % 50
    x, y = s[:, :-1], s[:, 1:]
    model = LM(V)
    return dict(model=model, batch=(x[:4], y[:4]), loss=loss_fn, optimizer=torch.optim.Adam(model.parameters(), lr=2e-3),
                loader=DataLoader(TensorDataset(x, y), batch_size=4, shuffle=True))
