"""BROKEN: Gradients are clipped to a norm of 1e-6 with SGD, so hardly anything moves.
An expert would want to hear: clip norm is orders of magnitude below the real gradient norm, each step has length
lr*1e-6; raise to ~1.
Accept also: gradient clipping far too strong.
Does not count: "lr too small" alone.
"""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class Denoiser(nn.Module):
    def __init__(self, d=2, h=64):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d + 1, h), nn.SiLU(), nn.Linear(h, h), nn.SiLU(), nn.Linear(h, d))

    def forward(self, x, t):
        return self.net(torch.cat([x, t[:, None]], 1))


def ddpm_loss(model, batch):
    x0, _ = batch
    t = torch.rand(len(x0))
    a = torch.cos(t * math.pi / 2)[:, None]
    s = torch.sin(t * math.pi / 2)[:, None]
    eps = torch.randn_like(x0)
    return F.mse_loss(model(a * x0 + s * eps, t), eps)


def make():
    torch.manual_seed(0)
    th = 6.28 * torch.rand(1024)
    x = torch.stack([th.cos(), th.sin()], 1) * 1.4
    model = Denoiser()

    def step(model, batch, optimizer):
        optimizer.zero_grad()
        loss = ddpm_loss(model, batch)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1e-6)
        optimizer.step()
        return loss
    return dict(model=model, batch=(x[:128], x[:128]), loss=ddpm_loss, step=step,
                optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
                loader=DataLoader(TensorDataset(x, x), batch_size=128, shuffle=True))
