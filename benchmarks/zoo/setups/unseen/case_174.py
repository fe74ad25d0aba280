"""HEALTHY: Tabular regression with standardised inputs and targets, matched shapes, early-stopping-sized network.
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
    x, y = table(1200, 14)
    y = ((y - y[:1000].mean()) / y[:1000].std()).unsqueeze(1)
    model = MLP(14, 1)
    return dict(model=model, batch=(x[:64], y[:64]), loss=nn.MSELoss(), optimizer=torch.optim.AdamW(model.parameters(), lr=2e-3),
                loader=DataLoader(TensorDataset(x[:1000], y[:1000]), batch_size=64, shuffle=True),
                val_loader=DataLoader(TensorDataset(x[1000:], y[1000:]), batch_size=100))
