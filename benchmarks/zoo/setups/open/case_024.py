"""BROKEN: A network with batch normalisation is trained with batches of one picture.
An expert would want to hear: batch statistics of a single (tiny) image are noise; late 2x2 maps are normalised over four
values; running statistics do not fit; use larger batches or GroupNorm.
Accept also: batch size 1 with batch norm; unreliable batch statistics.
Does not count: "noisy gradient" alone.
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


class BasicBlock(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.short = nn.Sequential()
        if stride != 1 or cin != cout:
            self.short = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return F.relu(y + self.short(x))


class ResNet(nn.Module):
    def __init__(self, k, ch=3, w=16):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(ch, w, 3, 1, 1, bias=False), nn.BatchNorm2d(w), nn.ReLU())
        self.layers = nn.Sequential(BasicBlock(w, w), BasicBlock(w, 2 * w, 2), BasicBlock(2 * w, 4 * w, 2))
        self.fc = nn.Linear(4 * w, k)

    def forward(self, x):
        x = self.layers(self.stem(x))
        return self.fc(x.mean((2, 3)))


def make():
    torch.manual_seed(0)
    x, y = pictures(200, 4, size=8, ch=3)
    loader = DataLoader(TensorDataset(x, y), batch_size=1, shuffle=True)
    val = DataLoader(TensorDataset(x[:50], y[:50]), batch_size=1)
    model = ResNet(4, w=8)
    opt = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    return dict(model=model, batch=next(iter(loader)), loss=nn.CrossEntropyLoss(), optimizer=opt, loader=loader,
                val_loader=val)
