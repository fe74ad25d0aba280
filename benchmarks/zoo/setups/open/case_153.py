"""HEALTHY: Fine-tuning with a pretrained, frozen backbone kept in eval mode; only the new head trains.
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


class FineTune(nn.Module):
    def __init__(self, backbone, k):
        super().__init__()
        self.backbone = backbone
        for p in self.backbone.parameters():
            p.requires_grad = False
        self.head = nn.Linear(128, k)

    def train(self, mode=True):
        super().train(mode)
        self.backbone.eval()
        return self

    def forward(self, x):
        with torch.no_grad():
            f = self.backbone(x).flatten(1)
        return self.head(f)


def make():
    torch.manual_seed(0)
    x, y = pictures(512, 10)
    source = SmallCNN(10)
    opt = torch.optim.Adam(source.parameters(), lr=3e-3)
    for i in range(20):
        j = torch.randint(0, 512, (64,))
        opt.zero_grad()
        F.cross_entropy(source(x[j]), y[j]).backward()
        opt.step()
    xn, yn = pictures(400, 4, seed=9)
    model = FineTune(source.features, 4).train()
    return dict(model=model, batch=(xn[:40], yn[:40]), loss=nn.CrossEntropyLoss(),
                optimizer=torch.optim.Adam(model.head.parameters(), lr=5e-3),
                loader=DataLoader(TensorDataset(xn, yn), batch_size=40, shuffle=True))
