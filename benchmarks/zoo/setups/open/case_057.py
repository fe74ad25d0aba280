"""BROKEN: The training step works on a deep copy of the model, so the model itself is never updated.
An expert would want to hear: copy.deepcopy in the step: gradients and updates go to the copy and are thrown away.
Accept also: parameters of the given model never change because a copy is trained.
Does not count: "loss stays constant".
"""
import copy
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
    x, y = table(640, 8)
    y = y[:, None]
    model = MLP(8, 1)
    crit = nn.MSELoss()

    def step(model, batch, optimizer):
        net = copy.deepcopy(model)
        net.train()
        optimizer.zero_grad()
        loss = crit(net(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss
    return dict(model=model, batch=(x[:64], y[:64]), loss=crit, step=step,
                optimizer=torch.optim.Adam(model.parameters(), lr=1e-3),
                loader=DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True))
