"""BROKEN: The loss is summed over a batch of 256 with a learning rate meant for the mean.
An expert would want to hear: reduction="sum" multiplies the gradient by the batch size, effective lr 256 times too large;
use mean or lower the lr.
Accept also: gradient/loss scales with batch size; effective learning rate too high due to the sum.
Does not count: "loss explodes" alone.
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
    x, y = pictures(1024, 6)
    model = SmallCNN(6)
    return dict(model=model, batch=(x[:256], y[:256]), loss=nn.CrossEntropyLoss(reduction="sum"),
                optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
                loader=DataLoader(TensorDataset(x, y), batch_size=256, shuffle=True))
