"""BROKEN: An L2 penalty of 0.5 per squared weight is added by hand to the loss and rules it.
An expert would want to hear: the penalty is far larger than the data term, the solution is all weights ~0; lower the
coefficient.
Accept also: regularisation dominates the loss.
Does not count: "loss is high".
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


class MLP(nn.Module):
    def __init__(self, d, out, h=64):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, out))

    def forward(self, x):
        return self.net(x)


def loss_fn(model, batch):
    x, y = batch
    l2 = sum((p ** 2).sum() for p in model.parameters())
    return F.mse_loss(model(x).squeeze(1), y) + 0.5 * l2


def make():
    torch.manual_seed(0)
    x, y = table(640, 10)
    model = MLP(10, 1)
    return dict(model=model, batch=(x[:64], y[:64]), loss=loss_fn, optimizer=torch.optim.SGD(model.parameters(), lr=0.02),
                loader=DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True))
