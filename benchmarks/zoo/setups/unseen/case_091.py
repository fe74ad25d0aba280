"""BROKEN: Class indices 0..4 are given to BCEWithLogits as floats with a single output.
An expert would want to hear: BCE needs targets in [0,1]; a multi-class index is not one; the loss goes negative and
unbounded; use 5 outputs with cross-entropy.
Accept also: wrong loss for multi-class; targets out of range.
Does not count: "negative loss" alone.
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


class MLP(nn.Module):
    def __init__(self, d, out, h=64):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, out))

    def forward(self, x):
        return self.net(x)


def bce(model, batch):
    x, y = batch
    return F.binary_cross_entropy_with_logits(model(x).squeeze(1), y.float())


def make():
    torch.manual_seed(0)
    x, y = blobs(600, 10, 5)
    model = MLP(10, 1)
    return dict(model=model, batch=(x[:60], y[:60]), loss=bce, optimizer=torch.optim.Adam(model.parameters(), lr=1e-3),
                loader=DataLoader(TensorDataset(x, y), batch_size=60, shuffle=True))
