"""BROKEN: All weights and biases are initialised to zero.
An expert would want to hear: symmetry is never broken / gradients of hidden layers are zero; use random init.
Accept also: all units identical; zero initialisation.
Does not count: "loss at log k".
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


class Net(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.f = nn.Sequential(nn.Flatten(), nn.Linear(256, 100), nn.ReLU(), nn.Linear(100, 50), nn.ReLU())
        self.g = nn.Linear(50, k)
        for p in self.parameters():
            nn.init.zeros_(p)

    def forward(self, x):
        return self.g(self.f(x))


def make():
    torch.manual_seed(0)
    x, y = pictures(500, 5)
    model = Net(5)
    return dict(model=model, batch=(x[:50], y[:50]), loss=nn.CrossEntropyLoss(),
                optimizer=torch.optim.Adam(model.parameters(), lr=1e-3),
                loader=DataLoader(TensorDataset(x, y), batch_size=50, shuffle=True))
