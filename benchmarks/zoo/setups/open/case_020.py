"""BROKEN: The validation set consists of rows of the training set.
An expert would want to hear: validation samples are also in training, so validation measures memory, not
generalisation; make disjoint splits.
Accept also: data leakage between splits; train/val contamination; duplicates across splits.
Does not count: "overfits".
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset, Subset


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
            nn.Conv2d(ch, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(2))
        self.fc = nn.Linear(128, k)

    def forward(self, x):
        return self.fc(self.features(x).flatten(1))


def make():
    torch.manual_seed(0)
    x, y = pictures(600, 6, noise=1.0)
    full = TensorDataset(x, y)
    idx = torch.randperm(600).tolist()
    train = Subset(full, idx)
    val = Subset(full, idx[:120])
    loader = DataLoader(train, batch_size=40, shuffle=True)
    val_loader = DataLoader(val, batch_size=60)
    model = SmallCNN(6)
    return dict(model=model, batch=next(iter(loader)), loss=nn.CrossEntropyLoss(), loader=loader, val_loader=val_loader,
                optimizer=torch.optim.Adam(model.parameters(), lr=1e-3))
