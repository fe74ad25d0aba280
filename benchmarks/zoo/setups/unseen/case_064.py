"""BROKEN: Per-row standardisation of a dead sensor (zero variance) makes NaN samples in the autoencoder's data.
An expert would want to hear: dividing by zero std gives NaN inputs in a few samples; NaN spreads to all weights; add eps
or drop the rows.
Accept also: non-finite inputs; 0/0 in normalisation.
Does not count: "diverges, lower lr".
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
        self.enc = nn.Sequential(nn.Linear(d, 32), nn.ReLU(), nn.Linear(32, 6))
        self.dec = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, d))

    def forward(self, x):
        return self.dec(self.enc(x))


def make():
    torch.manual_seed(0)
    w = waves(500, 49)
    w[torch.randint(0, 500, (25,))] = 0.0
    w = (w - w.mean(1, keepdim=True)) / w.std(1, keepdim=True)
    loader = DataLoader(TensorDataset(w, w), batch_size=50, shuffle=True)
    model = AE(50)
    return dict(model=model, batch=next(iter(loader)), loss=nn.MSELoss(), loader=loader,
                optimizer=torch.optim.Adam(model.parameters(), lr=1e-3))
