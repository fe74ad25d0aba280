"""BROKEN: A regressor with standardised targets (half of them negative) ends in a ReLU.
An expert would want to hear: outputs are non-negative, negative targets cannot be reached and units die; remove the ReLU.
Accept also: output range does not cover the target range.
Does not count: "underfits".
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


def make():
    torch.manual_seed(0)
    x, y = table(640, 8)
    y = ((y - y.mean()) / y.std()).unsqueeze(1)
    layers = []
    sizes = [8, 64, 32, 1]
    for a, b in zip(sizes[:-1], sizes[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    model = nn.Sequential(*layers)
    return dict(model=model, batch=(x[:64], y[:64]), loss=nn.MSELoss(), optimizer=torch.optim.Adam(model.parameters(), lr=1e-3),
                loader=DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True))
