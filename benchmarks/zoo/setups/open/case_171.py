"""BROKEN: zero_grad is called between backward and step, so the optimizer sees no gradients.
An expert would want to hear: gradients are erased before step; parameters do not move; move zero_grad before backward.
Accept also: wrong order of zero_grad; parameters not updated because gradients are cleared.
Does not count: "loss constant".
"""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def blobs(n, d, k, spread=1.0, seed=0):
    g = torch.Generator().manual_seed(seed)
    centers = torch.randn(k, d, generator=g)
    y = torch.randint(0, k, (n,), generator=g)
    return centers[y] + spread * torch.randn(n, d, generator=g), y


class MLP(nn.Module):
    def __init__(self, d, out, h=64):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, out))

    def forward(self, x):
        return self.net(x)


def make():
    torch.manual_seed(0)
    x, y = blobs(600, 10, 4)
    model = MLP(10, 4)
    crit = nn.CrossEntropyLoss()

    def step(model, batch, optimizer):
        inputs, labels = batch
        loss = crit(model(inputs), labels)
        loss.backward()
        optimizer.zero_grad()
        optimizer.step()
        return loss
    return dict(model=model, batch=(x[:60], y[:60]), loss=crit, step=step, optimizer=torch.optim.Adam(model.parameters(), lr=1e-3),
                loader=DataLoader(TensorDataset(x, y), batch_size=60, shuffle=True))
