"""HEALTHY: CNN with mixup and label smoothing: the loss stays well above zero by design.
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
    x, y = pictures(512, 6)
    model = SmallCNN(6)
    crit = nn.CrossEntropyLoss(label_smoothing=0.1)

    def mix_loss(model, batch):
        a, t = batch
        if not model.training:
            return crit(model(a), t)
        lam = float(torch.distributions.Beta(0.4, 0.4).sample())
        p = torch.randperm(len(a))
        out = model(lam * a + (1 - lam) * a[p])
        return lam * crit(out, t) + (1 - lam) * crit(out, t[p])
    return dict(model=model, batch=(x[:32], y[:32]), loss=mix_loss, optimizer=torch.optim.Adam(model.parameters(), lr=2e-3),
                loader=DataLoader(TensorDataset(x[:448], y[:448]), batch_size=32, shuffle=True),
                val_loader=DataLoader(TensorDataset(x[448:], y[448:]), batch_size=64))
