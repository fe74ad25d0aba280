"""HEALTHY: Bag-of-words inputs with 1 percent non-zero entries.
"""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def make():
    torch.manual_seed(0)
    n, V = 1000, 1000
    y = torch.randint(0, 4, (n,))
    x = torch.zeros(n, V)
    for i in range(n):
        own = int(y[i]) * 60 + torch.randint(0, 60, (5,))
        x[i, torch.cat([own, torch.randint(0, V, (7,))])] = 1.0
    model = nn.Sequential(nn.Linear(V, 64), nn.ReLU(), nn.Linear(64, 4))
    return dict(model=model, batch=(x[:50], y[:50]), loss=nn.CrossEntropyLoss(), optimizer=torch.optim.Adam(model.parameters(), lr=3e-3),
                loader=DataLoader(TensorDataset(x[:800], y[:800]), batch_size=50, shuffle=True),
                val_loader=DataLoader(TensorDataset(x[800:], y[800:]), batch_size=100))
