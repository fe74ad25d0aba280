"""HEALTHY: Heteroscedastic regression with Gaussian NLL, which goes below zero since the noise is small.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def nll(model, batch):
    x, y = batch
    mu, raw = model(x).chunk(2, 1)
    return F.gaussian_nll_loss(mu, y, F.softplus(raw) + 1e-4)


def make():
    torch.manual_seed(0)
    x = 2 * torch.rand(800, 2) - 1
    y = 0.5 * torch.sin(3 * x[:, :1]) + 0.02 * (1 + x[:, 1:].abs()) * torch.randn(800, 1)
    model = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))
    return dict(model=model, batch=(x[:80], y[:80]), loss=nll, optimizer=torch.optim.Adam(model.parameters(), lr=3e-3),
                loader=DataLoader(TensorDataset(x, y), batch_size=80, shuffle=True))
