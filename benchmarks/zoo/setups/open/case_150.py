"""HEALTHY: Segmentation U-Net with an auxiliary head on the middle features, weight 0.3, and BCE plus Dice.
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
        self.aux = nn.Conv2d(4 * w, 1, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        c = self.mid(F.max_pool2d(b, 2))
        x = self.u2(torch.cat([self.up2(c), b], 1))
        x = self.u1(torch.cat([self.up1(x), a], 1))
        return self.out(x), self.aux(c)


def dice(logits, m):
    p = logits.sigmoid()
    inter = (p * m).sum((1, 2, 3))
    return (1 - (2 * inter + 1) / (p.sum((1, 2, 3)) + m.sum((1, 2, 3)) + 1)).mean()


def loss_fn(model, batch):
    x, m = batch
    out, aux = model(x)
    small = F.adaptive_avg_pool2d(m, aux.shape[-2:])
    return (F.binary_cross_entropy_with_logits(out, m) + dice(out, m)
            + 0.3 * F.binary_cross_entropy_with_logits(aux, small))


def make():
    torch.manual_seed(0)
    x, m = discs(128)
    model = UNet()
    return dict(model=model, batch=(x[:8], m[:8]), loss=loss_fn, optimizer=torch.optim.Adam(model.parameters(), lr=2e-3),
                loader=DataLoader(TensorDataset(x, m), batch_size=8, shuffle=True))
