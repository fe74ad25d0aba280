"""HEALTHY: Diffusion denoiser with adaLN-zero blocks and a zero-initialised output layer, so it outputs zero at the start on purpose.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class AdaBlock(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm = nn.LayerNorm(d, elementwise_affine=False)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.SiLU(), nn.Linear(2 * d, d))
        self.ada = nn.Linear(d, 3 * d)
        nn.init.zeros_(self.ada.weight)
        nn.init.zeros_(self.ada.bias)

    def forward(self, x, c):
        shift, scale, gate = self.ada(c).chunk(3, 1)
        return x + gate * self.ff(self.norm(x) * (1 + scale) + shift)


class Denoiser(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.inp = nn.Linear(2, d)
        self.time = nn.Sequential(nn.Linear(16, d), nn.SiLU())
        self.blocks = nn.ModuleList([AdaBlock(d) for _ in range(3)])
        self.out = nn.Linear(d, 2)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, x, t):
        f = t[:, None] * 2 ** torch.arange(8).float()
        c = self.time(torch.cat([f.sin(), f.cos()], 1))
        h = self.inp(x)
        for b in self.blocks:
            h = b(h, c)
        return self.out(h)


def loss_fn(model, batch):
    x0 = batch[0]
    t = torch.rand(len(x0))
    a, s = torch.cos(1.57 * t)[:, None], torch.sin(1.57 * t)[:, None]
    eps = torch.randn_like(x0)
    return F.mse_loss(model(a * x0 + s * eps, t), eps)


def make():
    torch.manual_seed(0)
    th = 6.28 * torch.rand(1024)
    x = 1.4 * torch.stack([th.cos(), th.sin()], 1)
    model = Denoiser()
    return dict(model=model, batch=(x[:128], x[:128]), loss=loss_fn, optimizer=torch.optim.AdamW(model.parameters(), lr=2e-3),
                loader=DataLoader(TensorDataset(x, x), batch_size=128, shuffle=True))
