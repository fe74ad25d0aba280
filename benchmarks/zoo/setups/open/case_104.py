"""BROKEN: Adam is built with eps=1.0, which turns it into a tiny-step SGD.
An expert would want to hear: eps dwarfs sqrt(v), so the update is lr*m rather than lr*m/sqrt(v), thousands of times too
small; use 1e-8.
Accept also: epsilon too large; adaptive scaling switched off.
Does not count: "lr too small" alone.
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


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(1, 32, batch_first=True)
        self.fc = nn.Linear(32, 1)

    def forward(self, x):
        return self.fc(self.rnn(x)[0][:, -1])


def make():
    torch.manual_seed(0)
    w = waves(512, 24)
    x, y = w[:, :-1, None], w[:, -1:]
    model = Forecaster()
    return dict(model=model, batch=(x[:64], y[:64]), loss=nn.MSELoss(),
                optimizer=torch.optim.Adam(model.parameters(), lr=1e-3, eps=1.0),
                loader=DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True))
