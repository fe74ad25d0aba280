"""BROKEN: The cosine similarity of SimSiam is minimised rather than maximised (minus missing).
An expert would want to hear: loss = +cos(p, z) pushes two views of one sample apart; it should be negative cosine.
Accept also: sign error in the similarity loss.
Does not count: "collapse".
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


class SimSiam(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.enc = nn.Sequential(nn.Flatten(), nn.Linear(256, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, d))
        self.pred = nn.Sequential(nn.Linear(d, 32), nn.ReLU(), nn.Linear(32, d))

    def forward(self, a, b):
        za, zb = self.enc(a), self.enc(b)
        return self.pred(za), self.pred(zb), za.detach(), zb.detach()


def loss_fn(model, batch):
    a, b = batch
    pa, pb, za, zb = model(a, b)
    sim = F.cosine_similarity(pa, zb).mean() + F.cosine_similarity(pb, za).mean()
    return 0.5 * sim


def make():
    torch.manual_seed(0)
    x, _ = pictures(512, 10)
    a, b = x + 0.3 * torch.randn_like(x), x + 0.3 * torch.randn_like(x)
    model = SimSiam()
    return dict(model=model, batch=(a[:64], b[:64]), loss=loss_fn,
                loader=DataLoader(TensorDataset(a, b), batch_size=64, shuffle=True),
                optimizer=torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9))
