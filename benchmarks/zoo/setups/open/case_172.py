"""BROKEN: optimizer.step() is missing; only the scheduler is stepped.
An expert would want to hear: no parameter is ever updated; call optimizer.step() after backward.
Accept also: parameters do not change after a step.
Does not count: "lr too small".
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


class VAE(nn.Module):
    def __init__(self, d, z=8, h=128):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(d, h), nn.ReLU())
        self.mu, self.logvar = nn.Linear(h, z), nn.Linear(h, z)
        self.dec = nn.Sequential(nn.Linear(z, h), nn.ReLU(), nn.Linear(h, d))

    def forward(self, x):
        e = self.enc(x)
        mu, logvar = self.mu(e), self.logvar(e)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.dec(z), mu, logvar


def elbo(model, batch):
    x = batch[0]
    rec, mu, logvar = model(x)
    kl = -0.5 * (1 + logvar - mu ** 2 - logvar.exp()).sum(1).mean()
    return ((rec - x) ** 2).sum(1).mean() + kl


def make():
    torch.manual_seed(0)
    x = pictures(512, 6)[0].flatten(1)
    model = VAE(256)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=1000)

    def step(model, batch, optimizer):
        optimizer.zero_grad()
        loss = elbo(model, batch)
        loss.backward()
        sched.step()
        return loss
    return dict(model=model, batch=(x[:64], x[:64]), loss=elbo, optimizer=opt, scheduler=sched, step=step,
                loader=DataLoader(TensorDataset(x, x), batch_size=64, shuffle=True))
