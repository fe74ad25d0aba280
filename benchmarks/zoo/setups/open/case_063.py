"""BROKEN: Output of shape (B,1) is compared with targets of shape (B,), which broadcasts to a (B,B) table.
An expert would want to hear: MSE broadcasts all pairs, so the model learns the mean; squeeze the output or unsqueeze the
target.
Accept also: shape mismatch between output and target.
Does not count: "loss equals the target variance".
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


def mse(pred, target):
    return ((pred - target) ** 2).mean()


def make():
    torch.manual_seed(0)
    x, y = table(640, 10)
    model = MLP(10, 1)
    return dict(model=model, batch=(x[:64], y[:64]), loss=mse, optimizer=torch.optim.Adam(model.parameters(), lr=1e-3),
                loader=DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True))
