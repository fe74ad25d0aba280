"""HEALTHY: Affine coupling flow with zero-initialised couplings; its negative log-likelihood may be negative.
"""
import math
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class Coupling(nn.Module):
    def __init__(self, d, flip):
        super().__init__()
        self.flip = flip
        self.net = nn.Sequential(nn.Linear(d // 2, 64), nn.Tanh(), nn.Linear(64, d))
        nn.init.zeros_(self.net[2].weight)
        nn.init.zeros_(self.net[2].bias)

    def forward(self, x):
        a, b = x.chunk(2, 1)
        if self.flip:
            a, b = b, a
        s, t = self.net(a).chunk(2, 1)
        s = torch.tanh(s)
        b = b * s.exp() + t
        return torch.cat([b, a] if self.flip else [a, b], 1), s.sum(1)


class Flow(nn.Module):
    def __init__(self, d=2, n=6):
        super().__init__()
        self.layers = nn.ModuleList([Coupling(d, i % 2 == 1) for i in range(n)])

    def forward(self, x):
        ld = 0
        for l in self.layers:
            x, d = l(x)
            ld = ld + d
        return x, ld


def nll(model, batch):
    z, ld = model(batch[0])
    logp = -0.5 * (z ** 2 + math.log(2 * math.pi)).sum(1) + ld
    return -logp.mean()


def make():
    torch.manual_seed(0)
    u = torch.randn(1024, 2)
    x = torch.stack([0.3 * u[:, 0], 0.1 * u[:, 1] + u[:, 0] ** 2 * 0.2], 1)
    model = Flow()
    return dict(model=model, batch=(x[:128], x[:128]), loss=nll, optimizer=torch.optim.Adam(model.parameters(), lr=3e-3),
                loader=DataLoader(TensorDataset(x, x), batch_size=128, shuffle=True))
