"""BROKEN: The KL is summed over latents while the reconstruction is averaged over pixels, so the KL swamps everything and the posterior collapses.
An expert would want to hear: the two terms have different reductions (KL weight effectively hundreds times too large);
mu and logvar go to 0, the decoder gives the mean; sum both or lower beta.
Accept also: posterior collapse by too large a KL weight; reconstruction and KL badly balanced.
Does not count: "blurry output", "high loss".
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
    x, _ = batch
    rec, mu, logvar = model(x)
    recon = F.mse_loss(rec, x, reduction="mean")
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
    return recon + kl


def make():
    torch.manual_seed(0)
    x, y = pictures(640, 8)
    x = x.flatten(1)
    model = VAE(256)
    return dict(model=model, batch=(x[:64], x[:64]), loss=elbo,
                loader=DataLoader(TensorDataset(x, x), batch_size=64, shuffle=True),
                optimizer=torch.optim.Adam(model.parameters(), lr=1e-3))
