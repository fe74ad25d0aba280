"""HEALTHY: Binary classification with 5 percent positives, weighted BCE, learnable.
"""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class MLP(nn.Module):
    def __init__(self, d, out, h=64):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, out))

    def forward(self, x):
        return self.net(x)


def make():
    torch.manual_seed(0)
    n = 8000
    y = (torch.rand(n) < 0.05).float()
    x = torch.randn(n, 12) + 1.3 * y[:, None] * torch.tensor([1.0, -1, 1] + [0.0] * 9)
    loader = DataLoader(TensorDataset(x[:7200], y[:7200, None]), batch_size=100, shuffle=True)
    val = DataLoader(TensorDataset(x[7200:], y[7200:, None]), batch_size=400)
    model = MLP(12, 1)
    crit = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(5.0))
    return dict(model=model, batch=next(iter(loader)), loss=crit, loader=loader, val_loader=val,
                optimizer=torch.optim.Adam(model.parameters(), lr=1e-3))
