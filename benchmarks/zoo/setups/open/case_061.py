"""BROKEN: Hidden layers are kept in a plain Python list, so they are not registered and never trained.
An expert would want to hear: model.parameters() misses them (also no .to(), no state_dict); use nn.ModuleList.
Accept also: unregistered submodules/parameters; layers not in the optimizer.
Does not count: "underfits".
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def blobs(n, d, k, spread=1.0, seed=0):
    g = torch.Generator().manual_seed(seed)
    centers = torch.randn(k, d, generator=g)
    y = torch.randint(0, k, (n,), generator=g)
    return centers[y] + spread * torch.randn(n, d, generator=g), y


class DeepMLP(nn.Module):
    def __init__(self, d, k, h=48, depth=4):
        super().__init__()
        self.inp = nn.Linear(d, h)
        self.hidden = [nn.Linear(h, h) for _ in range(depth)]
        self.out = nn.Linear(h, k)

    def forward(self, x):
        x = F.relu(self.inp(x))
        for layer in self.hidden:
            x = F.relu(layer(x))
        return self.out(x)


def make():
    torch.manual_seed(0)
    x, y = blobs(600, 10, 5, spread=1.5)
    model = DeepMLP(10, 5)
    return dict(model=model, batch=(x[:60], y[:60]), loss=nn.CrossEntropyLoss(),
                optimizer=torch.optim.Adam(model.parameters(), lr=1e-3),
                loader=DataLoader(TensorDataset(x, y), batch_size=60, shuffle=True))
