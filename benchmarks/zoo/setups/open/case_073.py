"""BROKEN: The training set is sorted by class and loaded without shuffling, so each batch holds one class only.
An expert would want to hear: batches are single-class because data are in class order and shuffle=False; the network
swings to each class in turn and batch norm sees one class; shuffle.
Accept also: batches are not i.i.d.; no shuffling; order of data.
Does not count: "loss oscillates".
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
            nn.Conv2d(ch, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(2))
        self.fc = nn.Linear(128, k)

    def forward(self, x):
        return self.fc(self.features(x).flatten(1))


def make():
    torch.manual_seed(0)
    x, y = pictures(640, 5)
    order = y.argsort()
    ds = TensorDataset(x[order], y[order])
    loader = DataLoader(ds, batch_size=32)
    model = SmallCNN(5)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    return dict(model=model, batch=next(iter(loader)), loss=nn.CrossEntropyLoss(), optimizer=opt, loader=loader)
