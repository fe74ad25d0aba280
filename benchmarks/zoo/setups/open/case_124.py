"""BROKEN: The U-Net ends in a sigmoid and is trained with BCEWithLogitsLoss.
An expert would want to hear: sigmoid twice: outputs in 0..1 are taken as logits, probabilities stay in 0.5..0.73, the
background can never be predicted; remove one.
Accept also: BCEWithLogits gets probabilities.
Does not count: "loss stuck near 0.5/0.69".
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def discs(n, size=32, seed=0):
    g = torch.Generator().manual_seed(seed)
    r = torch.arange(size).float()
    yy, xx = torch.meshgrid(r, r, indexing="ij")
    c = (0.2 + 0.6 * torch.rand(n, 2, generator=g)) * size
    rad = 3 + 5 * torch.rand(n, 1, 1, generator=g)
    m = ((yy - c[:, :1, None]) ** 2 + (xx - c[:, 1:, None]) ** 2 < rad ** 2).float()[:, None]
    return m + 0.5 * torch.randn(n, 1, size, size, generator=g), m


def double(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1), nn.BatchNorm2d(cout), nn.ReLU(),
                         nn.Conv2d(cout, cout, 3, padding=1), nn.BatchNorm2d(cout), nn.ReLU())


class UNet(nn.Module):
    def __init__(self, w=8):
        super().__init__()
        self.d1, self.d2, self.mid = double(1, w), double(w, 2 * w), double(2 * w, 4 * w)
        self.up2 = nn.ConvTranspose2d(4 * w, 2 * w, 2, 2)
        self.u2 = double(4 * w, 2 * w)
        self.up1 = nn.ConvTranspose2d(2 * w, w, 2, 2)
        self.u1 = double(2 * w, w)
        self.out = nn.Conv2d(w, 1, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        c = self.mid(F.max_pool2d(b, 2))
        x = self.u2(torch.cat([self.up2(c), b], 1))
        x = self.u1(torch.cat([self.up1(x), a], 1))
        return torch.sigmoid(self.out(x))


def make():
    torch.manual_seed(0)
    x, m = discs(160)
    model = UNet()
    return dict(model=model, batch=(x[:16], m[:16]), loss=nn.BCEWithLogitsLoss(),
                optimizer=torch.optim.Adam(model.parameters(), lr=1e-3),
                loader=DataLoader(TensorDataset(x, m), batch_size=16, shuffle=True))
