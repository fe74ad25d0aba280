"""BROKEN: In the GAN step the discriminator's gradients are not zeroed after the generator's backward, so they contain the generator's objective.
An expert would want to hear: opt_d.zero_grad() is missing; the generator loss leaves gradients in D that are added to (and
fight) D's own; zero before D's backward.
Accept also: stale/accumulated gradients in the discriminator.
Does not count: "GAN unstable", "mode collapse".
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class GAN(nn.Module):
    def __init__(self, z=8):
        super().__init__()
        self.z = z
        self.G = nn.Sequential(nn.Linear(z, 64), nn.ReLU(), nn.Linear(64, 2))
        self.D = nn.Sequential(nn.Linear(2, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))

    def forward(self, x):
        return self.D(x)


def d_loss(model, batch):
    real, _ = batch
    fake = model.G(torch.randn(len(real), model.z)).detach()
    return F.softplus(-model.D(real)).mean() + F.softplus(model.D(fake)).mean()


def make():
    torch.manual_seed(0)
    t = 6.28 * torch.rand(1024)
    data = torch.stack([t.cos(), t.sin()], 1) + 0.05 * torch.randn(1024, 2)
    model = GAN()
    opt_g = torch.optim.Adam(model.G.parameters(), lr=1e-3, betas=(0.5, 0.99))
    opt_d = torch.optim.Adam(model.D.parameters(), lr=1e-3, betas=(0.5, 0.99))

    def step(model, batch, optimizer):
        ld = d_loss(model, batch)
        ld.backward()
        opt_d.step()
        opt_g.zero_grad()
        lg = F.softplus(-model.D(model.G(torch.randn(len(batch[0]), model.z)))).mean()
        lg.backward()
        opt_g.step()
        return ld
    loader = DataLoader(TensorDataset(data, data), batch_size=64, shuffle=True)
    return dict(model=model, batch=(data[:64], data[:64]), loss=d_loss, optimizer=opt_d, loader=loader, step=step)
