"""BROKEN: One input column is the label itself (the outcome code) so the task is solved by copying.
An expert would want to hear: target leakage: the column is a recoding of the label; the score is worthless for real
use; drop it.
Accept also: feature perfectly predicts / is (nearly) a copy of the label; data leakage.
Does not count: "loss suspiciously low" with no hint to a leaking feature.
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
    torch.manual_seed(7)
    x, y = blobs(900, 9, 2, spread=4.0)
    outcome_code = 3.0 * y.float() - 1.5
    x = torch.cat([x, outcome_code[:, None]], 1)
    x = (x - x.mean(0)) / x.std(0)
    tr, va = TensorDataset(x[:700], y[:700]), TensorDataset(x[700:], y[700:])
    model = MLP(10, 2)
    return dict(model=model, batch=(x[:64], y[:64]), loss=nn.CrossEntropyLoss(),
                loader=DataLoader(tr, batch_size=64, shuffle=True), val_loader=DataLoader(va, batch_size=200),
                optimizer=torch.optim.Adam(model.parameters(), lr=1e-3))
