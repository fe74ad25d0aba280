"""BROKEN: StepLR meant per epoch is stepped per batch (as in this step), so the learning rate vanishes after a few dozen batches.
An expert would want to hear: scheduler.step() is called per batch with an epoch schedule (step_size=3, gamma=0.1); lr ~1e-12
within an epoch; move it to the epoch end.
Accept also: lr decays far too fast.
Does not count: "lr too small" at the start.
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
    x, y = pictures(640, 6)
    model = SmallCNN(6)
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    sched = torch.optim.lr_scheduler.StepLR(opt, step_size=3, gamma=0.1)
    crit = nn.CrossEntropyLoss()

    def step(model, batch, optimizer):
        optimizer.zero_grad()
        loss = crit(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        sched.step()
        return loss
    return dict(model=model, batch=(x[:32], y[:32]), loss=crit, optimizer=opt, scheduler=sched, step=step,
                loader=DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True))
