"""HEALTHY: BYOL with a frozen target encoder updated by a moving average inside the step.
"""
import copy
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


def encoder():
    return nn.Sequential(nn.Flatten(), nn.Linear(256, 96), nn.BatchNorm1d(96), nn.ReLU(), nn.Linear(96, 48))


class BYOL(nn.Module):
    def __init__(self):
        super().__init__()
        self.online = encoder()
        self.target = copy.deepcopy(self.online)
        for p in self.target.parameters():
            p.requires_grad = False
        self.pred = nn.Sequential(nn.Linear(48, 96), nn.BatchNorm1d(96), nn.ReLU(), nn.Linear(96, 48))

    def forward(self, a, b):
        with torch.no_grad():
            ta, tb = self.target(a), self.target(b)
        return self.pred(self.online(a)), self.pred(self.online(b)), ta, tb


def byol_loss(model, batch):
    pa, pb, ta, tb = model(*batch)
    return 4 - 2 * (F.cosine_similarity(pa, tb).mean() + F.cosine_similarity(pb, ta).mean())


def make():
    torch.manual_seed(0)
    x, _ = pictures(640, 8)
    a, b = x + 0.3 * torch.randn_like(x), x + 0.3 * torch.randn_like(x)
    model = BYOL()
    opt = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-3)

    def step(model, batch, optimizer):
        optimizer.zero_grad()
        loss = byol_loss(model, batch)
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for p, q in zip(model.online.parameters(), model.target.parameters()):
                q.mul_(0.99).add_(p, alpha=0.01)
        return loss
    return dict(model=model, batch=(a[:64], b[:64]), loss=byol_loss, optimizer=opt, step=step,
                loader=DataLoader(TensorDataset(a, b), batch_size=64, shuffle=True, drop_last=True))
