"""HEALTHY: Count regression with Poisson NLL on log rates: loss may be negative, counts are not standardised by design.
"""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def make():
    torch.manual_seed(0)
    x = torch.randn(800, 8)
    rate = torch.exp(1.5 + x @ torch.randn(8, 1) / 6)
    y = torch.poisson(rate)
    model = nn.Sequential(nn.Linear(8, 48), nn.SiLU(), nn.Linear(48, 1))
    return dict(model=model, batch=(x[:64], y[:64]), loss=nn.PoissonNLLLoss(log_input=True),
                optimizer=torch.optim.Adam(model.parameters(), lr=3e-3),
                loader=DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True))
