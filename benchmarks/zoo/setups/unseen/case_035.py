"""HEALTHY: A physics-informed net for u' = -u with u(0) = 1: second backward through autograd.grad, no data targets.
"""
import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))

    def forward(self, t):
        return self.f(t)


def pinn_loss(model, batch):
    t = batch["t"].clone().requires_grad_(True)
    u = model(t)
    du = torch.autograd.grad(u.sum(), t, create_graph=True)[0]
    residual = (du + u).pow(2).mean()
    start = (model(torch.zeros(1, 1)) - 1).pow(2).mean()
    return residual + start


def make():
    torch.manual_seed(0)
    loader = [{"t": 2 * torch.rand(64, 1)} for _ in range(10)]
    model = Net()
    return dict(model=model, batch=loader[0], loss=pinn_loss, loader=loader, optimizer=torch.optim.Adam(model.parameters(), lr=2e-3))
