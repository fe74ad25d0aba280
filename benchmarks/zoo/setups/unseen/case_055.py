"""BROKEN: The validation metric is computed with the model in train mode, so dropout is on and batch norm learns from validation data.
An expert would want to hear: model.eval() is missing in evaluation: random scores, running statistics polluted by
validation batches.
Accept also: metric non-deterministic because of train mode; eval() missing.
Does not count: "noisy metric" with no cause.
"""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def blobs(n, d, k, spread=1.0, seed=0):
    g = torch.Generator().manual_seed(seed)
    centers = torch.randn(k, d, generator=g)
    y = torch.randint(0, k, (n,), generator=g)
    return centers[y] + spread * torch.randn(n, d, generator=g), y


class Net(nn.Module):
    def __init__(self, d, k):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, k))

    def forward(self, x):
        return self.net(x)


def make():
    torch.manual_seed(0)
    x, y = blobs(800, 12, 5, spread=2.0)
    model = Net(12, 5)
    loader = DataLoader(TensorDataset(x[:600], y[:600]), batch_size=60, shuffle=True)
    val = DataLoader(TensorDataset(x[600:], y[600:]), batch_size=50)

    def accuracy(model, batch):
        model.train()
        hits = n = 0
        with torch.no_grad():
            for a, b in val:
                hits += (model(a).argmax(1) == b).sum().item()
                n += len(b)
        return hits / n
    return dict(model=model, batch=(x[:60], y[:60]), loss=nn.CrossEntropyLoss(), loader=loader, val_loader=val,
                metric=accuracy, optimizer=torch.optim.Adam(model.parameters(), lr=2e-3))
