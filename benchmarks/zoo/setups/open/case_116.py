"""BROKEN: The split took the head of a label-sorted set, so some classes never occur in training but make up validation.
An expert would want to hear: training lacks classes that are in validation (split by position on sorted labels);
stratify or shuffle before splitting.
Accept also: train and validation label distributions are disjoint; missing classes in the training set.
Does not count: "overfitting", "val loss is high" without the labels.
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
    x, y = blobs(1000, 16, 5)
    o = torch.sort(y, stable=True).indices
    x, y = x[o], y[o]
    cut = 700
    loader = DataLoader(TensorDataset(x[:cut], y[:cut]), batch_size=50, shuffle=True)
    val_loader = DataLoader(TensorDataset(x[cut:], y[cut:]), batch_size=100)
    model = MLP(16, 5)
    return dict(model=model, batch=next(iter(loader)), loss=nn.CrossEntropyLoss(), loader=loader, val_loader=val_loader,
                optimizer=torch.optim.Adam(model.parameters(), lr=1e-3))
