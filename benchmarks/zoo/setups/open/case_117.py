"""HEALTHY: A deep linear network (no activations on purpose) with orthogonal init.
"""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def make():
    torch.manual_seed(0)
    x = torch.randn(600, 16)
    y = x @ torch.randn(16, 4) / 4
    model = nn.Sequential(*[nn.Linear(16, 16, bias=False) for _ in range(7)], nn.Linear(16, 4, bias=False))
    for m in model:
        nn.init.orthogonal_(m.weight)
    return dict(model=model, batch=(x[:60], y[:60]), loss=nn.MSELoss(), optimizer=torch.optim.SGD(model.parameters(), lr=0.05),
                loader=DataLoader(TensorDataset(x, y), batch_size=60, shuffle=True))
