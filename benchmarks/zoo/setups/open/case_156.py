"""BROKEN: Images in 0..1 are normalised with mean and std meant for 0..255, so the inputs are almost constant at about -2.
An expert would want to hear: normalisation constants are for the wrong range; pixel variation is ~0.004 around -2.1;
inputs are nearly constant; divide constants by 255.
Accept also: inputs nearly constant/with a large offset relative to their spread; wrong mean/std in normalisation.
Does not count: "slow training".
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

MEAN = torch.tensor([123.7, 116.3, 103.5]).view(1, 3, 1, 1)
STD = torch.tensor([58.4, 57.1, 57.4]).view(1, 3, 1, 1)


def make():
    torch.manual_seed(0)
    x, y = pictures(320, 4, ch=3)
    img = (0.5 + 0.2 * x).clamp(0, 1)
    img = (img - MEAN) / STD
    loader = DataLoader(TensorDataset(img, y), batch_size=32, shuffle=True)
    model = ResNet(4)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    return dict(model=model, batch=(img[:32], y[:32]), loss=nn.CrossEntropyLoss(), optimizer=opt, loader=loader)
