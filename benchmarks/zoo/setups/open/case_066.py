"""HEALTHY: Multi-label classification (several classes may be true) with BCEWithLogits.
"""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def make():
    torch.manual_seed(0)
    x = torch.randn(800, 16)
    y = (x @ torch.randn(16, 6) / 4 + 0.2 * torch.randn(800, 6) > 0.3).float()
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 6))
    return dict(model=model, batch=(x[:64], y[:64]), loss=nn.BCEWithLogitsLoss(), optimizer=torch.optim.Adam(model.parameters(), lr=2e-3),
                loader=DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True))
