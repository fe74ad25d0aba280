"""HEALTHY: Four micro-batches accumulated with the loss divided by four.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def pictures(n, k, size=16, ch=1, noise=0.5, seed=0):
    g = torch.Generator().manual_seed(seed)
    proto = torch.randn(k, ch, size // 4, size // 4, generator=g)
    proto = F.interpolate(proto, size=(size, size), mode="bilinear", align_corners=False)
    y = torch.randint(0, k, (n,), generator=g)
    return proto[y] + noise * torch.randn(n, ch, size, size, generator=g), y


class SmallCNN(nn.Module):
    def __init__(self, k, ch=1):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(ch, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.GroupNorm(4, 32), nn.ReLU(), nn.AdaptiveAvgPool2d(2))
        self.fc = nn.Linear(128, k)

    def forward(self, x):
        return self.fc(self.features(x).flatten(1))

ACCUM = 4


def make():
    torch.manual_seed(0)
    x, y = pictures(512, 6)
    model = SmallCNN(6)
    crit = nn.CrossEntropyLoss()

    def step(model, batch, optimizer):
        optimizer.zero_grad()
        total = 0.0
        for a, b in zip(batch[0].chunk(ACCUM), batch[1].chunk(ACCUM)):
            loss = crit(model(a), b) / ACCUM
            loss.backward()
            total += loss.item()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return total
    return dict(model=model, batch=(x[:64], y[:64]), loss=crit, step=step,
                optimizer=torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9),
                loader=DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True))
