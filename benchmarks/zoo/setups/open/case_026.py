"""BROKEN: Hidden biases start at -5, so nearly every ReLU is dead from the start.
An expert would want to hear: units never fire for any input, gradients are zero below; init biases at 0.
Accept also: dead/inactive ReLUs; zero activations.
Does not count: "vanishing gradients" with no dead units; "loss flat".
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


def init(m):
    if isinstance(m, nn.Linear):
        nn.init.xavier_uniform_(m.weight)
        nn.init.constant_(m.bias, -5.0)


def make():
    torch.manual_seed(0)
    x, y = blobs(600, 16, 4)
    x = (x - x.mean(0)) / x.std(0)
    model = MLP(16, 4)
    model.apply(init)
    return dict(model=model, batch=(x[:60], y[:60]), loss=nn.CrossEntropyLoss(),
                optimizer=torch.optim.SGD(model.parameters(), lr=0.05),
                loader=DataLoader(TensorDataset(x, y), batch_size=60, shuffle=True))
