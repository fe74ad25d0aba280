"""BROKEN: Top-1 routing without any balancing sends all tokens to one expert, the others get nothing.
An expert would want to hear: the router has collapsed to one expert (biased gate, no load-balancing loss or noise); other
experts get no gradient; add an auxiliary balance loss.
Accept also: experts unused/dead; router collapse.
Does not count: "some parameters have zero gradient" with no word on routing/experts.
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


class Top1MoE(nn.Module):
    def __init__(self, d, n=6, h=32):
        super().__init__()
        self.gate = nn.Linear(d, n)
        nn.init.normal_(self.gate.weight, std=0.02)
        nn.init.normal_(self.gate.bias, std=4.0)
        self.experts = nn.ModuleList([nn.Sequential(nn.Linear(d, h), nn.ReLU(), nn.Linear(h, 1)) for _ in range(n)])

    def forward(self, x):
        p = F.softmax(self.gate(x), 1)
        w, idx = p.max(1)
        out = torch.zeros(len(x))
        for i, e in enumerate(self.experts):
            sel = (idx == i).nonzero().flatten()
            if len(sel):
                out = out.index_add(0, sel, w[sel] * e(x[sel]).squeeze(1))
        return out


def make():
    torch.manual_seed(2)
    x, y = table(640, 10)
    model = Top1MoE(10)
    return dict(model=model, batch=(x[:64], y[:64]), loss=nn.MSELoss(), optimizer=torch.optim.Adam(model.parameters(), lr=2e-3),
                loader=DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True))
