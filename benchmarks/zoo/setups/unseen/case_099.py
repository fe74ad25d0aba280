"""BROKEN: SGD with momentum 0.999 at lr 0.1.
An expert would want to hear: effective step is lr/(1-m) = 100, the run overshoots and oscillates for thousands of steps;
use 0.9.
Accept also: momentum far too high.
Does not count: "oscillating loss".
"""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def table(n, d, noise=0.1, seed=0):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, d, generator=g)
    w = torch.randn(d, generator=g) / d ** 0.5
    y = x @ w + 0.5 * torch.sin(2 * x[:, 0]) + noise * torch.randn(n, generator=g)
    return x, y


class MLP(nn.Module):
    def __init__(self, d, out, h=64):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, out))

    def forward(self, x):
        return self.net(x)


def make():
    torch.manual_seed(0)
    x, y = table(640, 10)
    y = y[:, None]
    model = MLP(10, 1)
    return dict(model=model, batch=(x[:64], y[:64]), loss=nn.MSELoss(),
                optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.999),
                loader=DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True))
