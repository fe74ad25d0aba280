"""HEALTHY: Categorical columns one-hot encoded; some columns are constant zero in small batches.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def make():
    torch.manual_seed(0)
    n = 1200
    cats = torch.stack([torch.randint(0, 12, (n,)) for _ in range(4)], 1)
    effect = torch.randn(4, 12)
    score = sum(effect[j][cats[:, j]] for j in range(4))
    y = (score + 0.3 * torch.randn(n) > 0).float()[:, None]
    x = F.one_hot(cats, 12).float().flatten(1)
    model = nn.Sequential(nn.Linear(48, 64), nn.ReLU(), nn.Linear(64, 1))
    return dict(model=model, batch=(x[:32], y[:32]), loss=nn.BCEWithLogitsLoss(), optimizer=torch.optim.Adam(model.parameters(), lr=3e-3),
                loader=DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True))
