"""BROKEN: Predictions and targets are averaged over the batch before the error is taken.
An expert would want to hear: only the batch mean per step is fitted (mean taken before squaring), every sample may be
wrong; take the error first, then the mean.
Accept also: loss averages the wrong axis; gradient equal for all samples.
Does not count: "validation poor".
"""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def waves(n, T, seed=0):
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(T + 1).float()
    f = 0.1 + 0.4 * torch.rand(n, 1, generator=g)
    ph = 6.28 * torch.rand(n, 1, generator=g)
    return torch.sin(f * t + ph) + 0.05 * torch.randn(n, T + 1, generator=g)


class SeqReg(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(1, 32, batch_first=True)
        self.fc = nn.Linear(32, 1)

    def forward(self, x):
        return self.fc(self.rnn(x.unsqueeze(2))[0]).squeeze(2)


def seq_mse(pred, target):
    return (pred.mean(0) - target.mean(0)).pow(2).mean()


def make():
    torch.manual_seed(0)
    w = waves(512, 30)
    x, y = w[:, :-1], w[:, 1:]
    model = SeqReg()
    return dict(model=model, batch=(x[:64], y[:64]), loss=seq_mse, optimizer=torch.optim.Adam(model.parameters(), lr=3e-3),
                loader=DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True))
