"""HEALTHY: Shared trunk with a classification and a regression head.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def blobs(n, d, k, spread=1.0, seed=0):
    g = torch.Generator().manual_seed(seed)
    centers = torch.randn(k, d, generator=g)
    y = torch.randint(0, k, (n,), generator=g)
    return centers[y] + spread * torch.randn(n, d, generator=g), y


class MultiTask(nn.Module):
    def __init__(self, d, k):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(d, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())
        self.cls, self.reg = nn.Linear(32, k), nn.Linear(32, 1)

    def forward(self, x):
        h = self.trunk(x)
        return self.cls(h), self.reg(h).squeeze(1)


def loss_fn(model, batch):
    logits, value = model(batch["x"])
    return F.cross_entropy(logits, batch["label"]) + 0.5 * F.mse_loss(value, batch["value"])


def make():
    torch.manual_seed(0)
    x, y = blobs(640, 12, 4, spread=1.3)
    v = 0.4 * x[:, 0] * x[:, 1] + 0.1 * torch.randn(640)
    loader = [{"x": x[i:i + 64], "label": y[i:i + 64], "value": v[i:i + 64]} for i in range(0, 640, 64)]
    model = MultiTask(12, 4)
    return dict(model=model, batch=loader[0], loss=loss_fn, loader=loader, optimizer=torch.optim.Adam(model.parameters(), lr=2e-3))
