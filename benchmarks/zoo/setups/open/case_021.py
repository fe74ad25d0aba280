"""BROKEN: Twelve sigmoid layers in a row let the gradient vanish before it reaches the first layers.
An expert would want to hear: sigmoid derivative <= 0.25 per layer, early layers get ~1e-8 of the gradient; use ReLU/
normalisation/residuals.
Accept also: vanishing gradient in a deep sigmoid stack.
Does not count: "lr too small".
"""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def blobs(n, d, k, spread=1.0, seed=0):
    g = torch.Generator().manual_seed(seed)
    centers = torch.randn(k, d, generator=g)
    y = torch.randint(0, k, (n,), generator=g)
    return centers[y] + spread * torch.randn(n, d, generator=g), y


def build(d, k, depth=12, h=40):
    mods = [nn.Linear(d, h), nn.Sigmoid()]
    for _ in range(depth - 1):
        mods += [nn.Linear(h, h), nn.Sigmoid()]
    return nn.Sequential(*mods, nn.Linear(h, k))


def make():
    torch.manual_seed(0)
    x, y = blobs(640, 10, 4)
    model = build(10, 4)
    return dict(model=model, batch=(x[:64], y[:64]), loss=nn.CrossEntropyLoss(),
                optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
                loader=DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True))
