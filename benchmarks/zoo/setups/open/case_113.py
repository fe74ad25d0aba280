"""HEALTHY: Denoising autoencoder: noisy input, clean target.
"""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def discs(n, size=32, seed=0):
    g = torch.Generator().manual_seed(seed)
    r = torch.arange(size).float()
    yy, xx = torch.meshgrid(r, r, indexing="ij")
    c = (0.2 + 0.6 * torch.rand(n, 2, generator=g)) * size
    rad = 3 + 5 * torch.rand(n, 1, 1, generator=g)
    m = ((yy - c[:, :1, None]) ** 2 + (xx - c[:, 1:, None]) ** 2 < rad ** 2).float()[:, None]
    return m + 0.5 * torch.randn(n, 1, size, size, generator=g), m


def make():
    torch.manual_seed(0)
    x, m = discs(256, size=16)
    model = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 8, 3, stride=2, padding=1), nn.ReLU(),
                          nn.ConvTranspose2d(8, 16, 4, 2, 1), nn.ReLU(), nn.Conv2d(16, 1, 3, padding=1))
    return dict(model=model, batch=(x[:32], m[:32]), loss=nn.MSELoss(), optimizer=torch.optim.Adam(model.parameters(), lr=3e-3),
                loader=DataLoader(TensorDataset(x, m), batch_size=32, shuffle=True))
