"""BROKEN: A ReLU follows the last linear layer, so logits cannot be negative.
An expert would want to hear: clipping logits at 0 kills gradients for classes below zero and limits confidence; remove
the final ReLU.
Accept also: activation on the output layer/logits.
Does not count: "dead units" without the output.
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
        return F.relu(self.fc(self.features(x).flatten(1)))


def make():
    torch.manual_seed(0)
    x, y = pictures(512, 8)
    model = SmallCNN(8)
    return dict(model=model, batch=(x[:32], y[:32]), loss=nn.CrossEntropyLoss(),
                optimizer=torch.optim.Adam(model.parameters(), lr=1e-3),
                loader=DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True))
