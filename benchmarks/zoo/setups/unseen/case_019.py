"""BROKEN: A network with hundreds of thousands of weights is fitted to 24 noisy rows, no regularisation.
An expert would want to hear: overfitting: far too little data for the capacity; training loss goes to 0 while validation
grows; more data, smaller model, regularise, stop early.
Accept also: overfits; memorises; train/val gap.
Does not count: "val loss high" alone.
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


def make():
    torch.manual_seed(0)
    x, y = table(224, 30, noise=1.0)
    y = y[:, None]
    model = nn.Sequential(nn.Linear(30, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1))
    return dict(model=model, batch=(x[:24], y[:24]), loss=nn.MSELoss(), optimizer=torch.optim.Adam(model.parameters(), lr=1e-3),
                loader=DataLoader(TensorDataset(x[:24], y[:24]), batch_size=24, shuffle=True),
                val_loader=DataLoader(TensorDataset(x[24:], y[24:]), batch_size=100))
