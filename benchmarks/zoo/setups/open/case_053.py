"""HEALTHY: Plain MLP classifier with SGD, Nesterov momentum 0.9 and weight decay.
"""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def blobs(n, d, k, spread=1.0, seed=0):
    g = torch.Generator().manual_seed(seed)
    centers = torch.randn(k, d, generator=g)
    y = torch.randint(0, k, (n,), generator=g)
    return centers[y] + spread * torch.randn(n, d, generator=g), y


class MLP(nn.Module):
    def __init__(self, d, out, h=64):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, out))

    def forward(self, x):
        return self.net(x)


def make():
    torch.manual_seed(0)
    x, y = blobs(4000, 16, 6, spread=1.3)
    model = MLP(16, 6)
    return dict(model=model, batch=(x[:50], y[:50]), loss=nn.CrossEntropyLoss(),
                optimizer=torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9, nesterov=True, weight_decay=1e-3),
                loader=DataLoader(TensorDataset(x[:3600], y[:3600]), batch_size=50, shuffle=True),
                val_loader=DataLoader(TensorDataset(x[3600:], y[3600:]), batch_size=100))
