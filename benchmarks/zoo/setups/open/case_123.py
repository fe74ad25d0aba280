"""HEALTHY: A 16-layer ReZero network (residual gates start at zero).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def blobs(n, d, k, spread=1.0, seed=0):
    g = torch.Generator().manual_seed(seed)
    centers = torch.randn(k, d, generator=g)
    y = torch.randint(0, k, (n,), generator=g)
    return centers[y] + spread * torch.randn(n, d, generator=g), y


class ReZero(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.lin = nn.Linear(d, d)
        self.alpha = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return x + self.alpha * F.relu(self.lin(x))


def make():
    torch.manual_seed(0)
    x, y = blobs(800, 10, 5, spread=1.2)
    model = nn.Sequential(nn.Linear(10, 48), *[ReZero(48) for _ in range(16)], nn.Linear(48, 5))
    return dict(model=model, batch=(x[:64], y[:64]), loss=nn.CrossEntropyLoss(), optimizer=torch.optim.Adam(model.parameters(), lr=2e-3),
                loader=DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True))
