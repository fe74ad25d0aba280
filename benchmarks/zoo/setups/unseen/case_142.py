"""BROKEN: Gradients are never zeroed in the training step.
An expert would want to hear: zero_grad is missing, gradients pile up over all steps and act like a runaway momentum; call
optimizer.zero_grad() each step.
Accept also: gradients accumulate between steps.
Does not count: "loss diverges".
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
    x, y = table(512, 10)
    y = y[:, None]
    model = MLP(10, 1)
    crit = nn.MSELoss()

    def step(model, batch, optimizer):
        model.train()
        a, b = batch
        loss = crit(model(a), b)
        loss.backward()
        optimizer.step()
        return loss.item()
    return dict(model=model, batch=(x[:32], y[:32]), loss=crit, step=step,
                optimizer=torch.optim.SGD(model.parameters(), lr=0.05),
                loader=DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True))
