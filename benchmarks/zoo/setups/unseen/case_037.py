"""HEALTHY: An autoencoder whose target is its input by design, with a narrow bottleneck.
"""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def waves(n, T, seed=0):
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(T + 1).float()
    f = 0.1 + 0.4 * torch.rand(n, 1, generator=g)
    ph = 6.28 * torch.rand(n, 1, generator=g)
    return torch.sin(f * t + ph) + 0.05 * torch.randn(n, T + 1, generator=g)


class AE(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(d, 64), nn.ReLU(), nn.Linear(64, 8))
        self.dec = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, d))

    def forward(self, x):
        return self.dec(self.enc(x))


def make():
    torch.manual_seed(0)
    w = waves(600, 49)
    loader = DataLoader(TensorDataset(w, w), batch_size=50, shuffle=True)
    model = AE(50)
    return dict(model=model, batch=(w[:50], w[:50]), loss=nn.MSELoss(), loader=loader,
                optimizer=torch.optim.Adam(model.parameters(), lr=2e-3))
