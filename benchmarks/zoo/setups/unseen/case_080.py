"""BROKEN: Experts of a mixture live in a dict of modules, not a ModuleDict, so only the gate and head are trained.
An expert would want to hear: experts are unregistered, their parameters are missing in parameters(); use ModuleDict or
ModuleList.
Accept also: experts never updated because not registered.
Does not count: "experts unused".
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def table(n, d, noise=0.1, seed=0):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, d, generator=g)
    w = torch.randn(d, generator=g) / d ** 0.5
    y = x @ w + 0.5 * torch.sin(2 * x[:, 0]) + noise * torch.randn(n, generator=g)
    return x, y


class MoE(nn.Module):
    def __init__(self, d, n=4, h=32):
        super().__init__()
        self.gate = nn.Linear(d, n)
        self.experts = {i: nn.Sequential(nn.Linear(d, h), nn.ReLU(), nn.Linear(h, h)) for i in range(n)}
        self.head = nn.Linear(h, 1)

    def forward(self, x):
        w = F.softmax(self.gate(x), 1)
        e = torch.stack([f(x) for f in self.experts.values()], 1)
        return self.head((w.unsqueeze(2) * e).sum(1)).squeeze(1)


def make():
    torch.manual_seed(0)
    x, y = table(640, 8)
    model = MoE(8)
    return dict(model=model, batch=(x[:64], y[:64]), loss=nn.MSELoss(), optimizer=torch.optim.Adam(model.parameters(), lr=2e-3),
                loader=DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True))
