"""HEALTHY: VQ-VAE with straight-through estimator, codebook and commitment losses.
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


class VQVAE(nn.Module):
    def __init__(self, d=16, codes=32):
        super().__init__()
        self.enc = nn.Sequential(nn.Conv2d(1, 32, 4, 2, 1), nn.ReLU(), nn.Conv2d(32, d, 4, 2, 1))
        self.code = nn.Embedding(codes, d)
        nn.init.normal_(self.code.weight, std=0.1)
        self.dec = nn.Sequential(nn.ConvTranspose2d(d, 32, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(32, 1, 4, 2, 1))

    def forward(self, x):
        z = self.enc(x).permute(0, 2, 3, 1)
        i = torch.cdist(z.reshape(-1, z.size(-1)), self.code.weight).argmin(1)
        q = self.code(i).view_as(z)
        vq = F.mse_loss(q, z.detach()) + 1.0 * F.mse_loss(z, q.detach())
        q = z + (q - z).detach()
        return self.dec(q.permute(0, 3, 1, 2)), vq


def loss_fn(model, batch):
    rec, vq = model(batch[0])
    return F.mse_loss(rec, batch[0]) + vq


def make():
    torch.manual_seed(0)
    x, _ = pictures(512, 6, noise=0.1)
    model = VQVAE()
    with torch.no_grad():
        z = model.enc(x[:128]).permute(0, 2, 3, 1).reshape(-1, 16)
        model.code.weight.copy_(z[torch.randperm(len(z))[:32]])
    return dict(model=model, batch=(x[:64], x[:64]), loss=loss_fn, optimizer=torch.optim.Adam(model.parameters(), lr=2e-3),
                loader=DataLoader(TensorDataset(x, x), batch_size=64, shuffle=True))
