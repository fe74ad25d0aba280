"""BROKEN: The KL term of a VAE enters with a negative sign, so it is maximised.
An expert would want to hear: KL is subtracted: log-variances blow up and the loss goes to minus infinity; the KL must be
added.
Accept also: sign of KL wrong; loss unbounded below.
Does not count: "NaN after a while".
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


def loss_fn(model, batch):
    x, _ = batch
    rec, mu, logvar = model(x)
    recon = F.mse_loss(rec, x, reduction="sum") / len(x)
    kl = 0.5 * torch.sum(1 + logvar - mu ** 2 - logvar.exp(), 1).mean()
    return recon + kl


def make():
    torch.manual_seed(3)
    x, _ = pictures(512, 5, noise=0.3)
    x = x.flatten(1)
    model = VAE(256, z=6)
    return dict(model=model, batch=(x[:64], x[:64]), loss=loss_fn,
                loader=DataLoader(TensorDataset(x, x), batch_size=64, shuffle=True),
                optimizer=torch.optim.Adam(model.parameters(), lr=1e-3))
