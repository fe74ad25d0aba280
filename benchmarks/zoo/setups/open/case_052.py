"""BROKEN: ignore_index=0 throws a real class out of the loss.
An expert would want to hear: class 0 is a valid class, ignore_index=0 removes its samples from the loss, so it is never
learned; drop ignore_index.
Accept also: ignore_index hits a real class; a class gets no gradient.
Does not count: "class 0 has low accuracy" only.
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
    x, y = pictures(600, 3, noise=0.8)
    loader = DataLoader(TensorDataset(x, y), batch_size=50, shuffle=True)
    model = SmallCNN(3)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)

    def accuracy(model, batch):
        with torch.no_grad():
            return (model(batch[0]).argmax(1) == batch[1]).float().mean().item()
    return dict(model=model, batch=(x[:50], y[:50]), loss=nn.CrossEntropyLoss(ignore_index=0), optimizer=opt,
                loader=loader, metric=accuracy)
