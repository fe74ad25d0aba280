"""HEALTHY: Fine-tuning of an already trained CNN with a small learning rate of 1e-5 in all layers (slow on purpose).
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
    x, y = pictures(512, 6, noise=0.9)
    model = SmallCNN(6)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for i in range(20):
        j = torch.randint(0, 512, (64,))
        opt.zero_grad()
        F.cross_entropy(model(x[j]), y[j]).backward()
        opt.step()
    xn = 1.15 * x + 0.1
    return dict(model=model, batch=(xn[:32], y[:32]), loss=nn.CrossEntropyLoss(),
                optimizer=torch.optim.AdamW(model.parameters(), lr=1e-5),
                loader=DataLoader(TensorDataset(xn, y), batch_size=32, shuffle=True))
