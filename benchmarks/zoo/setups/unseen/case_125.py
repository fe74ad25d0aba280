"""BROKEN: The loss is scaled by GradScaler but optimizer.step() is called directly, so unscaled gradients (65536 times too large) are applied.
An expert would want to hear: scaler.step/unscale_ is missing, the step uses scaled gradients; call scaler.step(optimizer) and
scaler.update().
Accept also: gradients not unscaled; gradient magnitude multiplied by the loss scale.
Does not count: "diverges", "lr too high".
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
    scaler = torch.amp.GradScaler("cpu", init_scale=65536.0)
    crit = nn.CrossEntropyLoss()

    def step(model, batch, optimizer):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = crit(model(batch[0]), batch[1])
        scaler.scale(loss).backward()
        optimizer.step()
        return loss.float()
    return dict(model=model, batch=(x[:32], y[:32]), loss=crit, step=step,
                optimizer=torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9),
                loader=DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True))
