"""BROKEN: The step validates every 5 iterations with model.eval() and never goes back to train().
An expert would want to hear: after the first validation all training is in eval mode: dropout off, BN statistics frozen;
call model.train() afterwards.
Accept also: mode left in eval; trains in eval mode from then on.
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
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Dropout(0.2))
        self.fc = nn.Linear(128, k)

    def forward(self, x):
        return self.fc(self.features(x).flatten(1))


def make():
    torch.manual_seed(0)
    x, y = pictures(512, 6, noise=1.0)
    model = SmallCNN(6)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    loader = DataLoader(TensorDataset(x[:448], y[:448]), batch_size=32, shuffle=True)
    val = DataLoader(TensorDataset(x[448:], y[448:]), batch_size=64)
    state = {"it": 0, "val": []}

    def validate(model):
        model.eval()
        with torch.no_grad():
            return sum(F.cross_entropy(model(a), b).item() for a, b in val) / len(val)

    def step(model, batch, optimizer):
        a, b = batch
        loss = F.cross_entropy(model(a), b)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if state["it"] % 5 == 0:
            state["val"].append(validate(model))
        state["it"] += 1
        return loss
    return dict(model=model, batch=(x[:32], y[:32]), loss=nn.CrossEntropyLoss(), optimizer=opt, loader=loader,
                val_loader=val, step=step)
