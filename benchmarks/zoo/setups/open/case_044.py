"""BROKEN: Features and targets are permuted independently so the rows no longer belong together.
An expert would want to hear: X and y are shuffled with different permutations, so the targets carry no information
about the inputs and the best is the mean; use one permutation for both.
Accept also: labels are unrelated to inputs; labels effectively random because of misaligned shuffle.
Does not count: "loss does not go below the variance of the target".
"""
import torch
import torch.nn as nn
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


def make():
    torch.manual_seed(0)
    x, y = table(800, 12)
    x = x[torch.randperm(len(x))]
    y = y[torch.randperm(len(y))].unsqueeze(1)
    loader = DataLoader(TensorDataset(x[:640], y[:640]), batch_size=64, shuffle=True)
    val = DataLoader(TensorDataset(x[640:], y[640:]), batch_size=160)
    model = MLP(12, 1)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    return dict(model=model, batch=(x[:64], y[:64]), loss=nn.MSELoss(), optimizer=opt, loader=loader, val_loader=val)
