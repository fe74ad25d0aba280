"""HEALTHY: Regression to targets in {-1, 0, 1} through a tanh output.
"""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def make():
    torch.manual_seed(0)
    x = torch.randn(900, 10)
    s = x[:, 0] + 0.5 * x[:, 1]
    y = ((s > 0.6).float() - (s < -0.6).float())[:, None]
    model = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 1), nn.Tanh())
    return dict(model=model, batch=(x[:60], y[:60]), loss=nn.MSELoss(), optimizer=torch.optim.Adam(model.parameters(), lr=2e-3),
                loader=DataLoader(TensorDataset(x, y), batch_size=60, shuffle=True))
