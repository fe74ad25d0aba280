"""HEALTHY: Top-2 mixture of experts with a load-balancing auxiliary loss.
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
        self.experts = nn.ModuleList([nn.Sequential(nn.Linear(d, h), nn.ReLU(), nn.Linear(h, 1)) for _ in range(n)])
        self.n = n

    def forward(self, x):
        p = F.softmax(self.gate(x), 1)
        w, idx = p.topk(2, 1)
        w = w / w.sum(1, keepdim=True)
        outs = torch.stack([e(x).squeeze(1) for e in self.experts], 1)
        y = (w * outs.gather(1, idx)).sum(1)
        load = F.one_hot(idx[:, 0], self.n).float().mean(0)
        aux = self.n * (load * p.mean(0)).sum()
        return y, aux


def loss_fn(model, batch):
    pred, aux = model(batch[0])
    return F.mse_loss(pred, batch[1]) + 0.01 * aux


def make():
    torch.manual_seed(0)
    x, y = table(800, 8)
    model = MoE(8)
    return dict(model=model, batch=(x[:80], y[:80]), loss=loss_fn, optimizer=torch.optim.Adam(model.parameters(), lr=3e-3),
                loader=DataLoader(TensorDataset(x, y), batch_size=80, shuffle=True))
