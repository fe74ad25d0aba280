"""HEALTHY: A step that validates every 10 iterations and restores the previous mode.
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


def make():
    torch.manual_seed(0)
    x, y = blobs(900, 14, 5, spread=1.6)
    model = nn.Sequential(nn.Linear(14, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 5))
    val = DataLoader(TensorDataset(x[700:], y[700:]), batch_size=100)
    log = {"n": 0, "val": []}

    def step(model, batch, optimizer):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        log["n"] += 1
        if log["n"] % 10 == 0:
            was = model.training
            model.eval()
            with torch.no_grad():
                log["val"].append(sum(F.cross_entropy(model(a), b).item() for a, b in val) / len(val))
            model.train(was)
        return loss
    return dict(model=model, batch=(x[:50], y[:50]), loss=nn.CrossEntropyLoss(), step=step, val_loader=val,
                optimizer=torch.optim.Adam(model.parameters(), lr=2e-3),
                loader=DataLoader(TensorDataset(x[:700], y[:700]), batch_size=50, shuffle=True))
