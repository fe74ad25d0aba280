"""BROKEN: The model is put in eval mode for the training itself (eval() called in make, train() never).
An expert would want to hear: batch norm uses its untouched running statistics (0/1) and dropout is off while training;
call model.train().
Accept also: model trains in eval mode; BN statistics never updated.
Does not count: "overfits".
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
        self.drop = nn.Dropout(0.3)
        self.fc = nn.Linear(128, k)

    def forward(self, x):
        return self.fc(self.drop(self.features(x).flatten(1)))


def make():
    torch.manual_seed(0)
    x, y = pictures(512, 6)
    model = SmallCNN(6)
    model.eval()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    loader = DataLoader(TensorDataset(x[:448], y[:448]), batch_size=32, shuffle=True)
    val = DataLoader(TensorDataset(x[448:], y[448:]), batch_size=64)

    def step(model, batch, optimizer):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss
    return dict(model=model, batch=(x[:32], y[:32]), loss=nn.CrossEntropyLoss(), optimizer=opt, loader=loader,
                val_loader=val, step=step)
