"""HEALTHY: An MLP with dropout 0.5 in both hidden layers (noisy training loss, better in eval mode).
"""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def blobs(n, d, k, spread=1.0, seed=0):
    g = torch.Generator().manual_seed(seed)
    centers = torch.randn(k, d, generator=g)
    y = torch.randint(0, k, (n,), generator=g)
    return centers[y] + spread * torch.randn(n, d, generator=g), y


def make():
    torch.manual_seed(0)
    x, y = blobs(900, 20, 5, spread=1.8)
    model = nn.Sequential(nn.Linear(20, 256), nn.ReLU(), nn.Dropout(0.5), nn.Linear(256, 128), nn.ReLU(), nn.Dropout(0.5),
                          nn.Linear(128, 5))
    return dict(model=model, batch=(x[:50], y[:50]), loss=nn.CrossEntropyLoss(), optimizer=torch.optim.Adam(model.parameters(), lr=1e-3),
                loader=DataLoader(TensorDataset(x[:700], y[:700]), batch_size=50, shuffle=True),
                val_loader=DataLoader(TensorDataset(x[700:], y[700:]), batch_size=100))
