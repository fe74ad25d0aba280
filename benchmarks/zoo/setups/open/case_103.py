"""BROKEN: Validation inputs are standardised twice with the training statistics, so validation sees other data than training.
An expert would want to hear: the preprocessing differs between train and validation (normalised twice, shifted mean
and tiny spread); apply the same transform once.
Accept also: train/validation input distribution mismatch; different normalisation in val; distribution shift.
Does not count: "overfitting", "validation loss higher".
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


class Scaler:
    def fit(self, x):
        self.m, self.s = x.mean(0), x.std(0)
        return self

    def __call__(self, x):
        return (x - self.m) / self.s


def make():
    torch.manual_seed(0)
    x, y = blobs(1000, 10, 4)
    x = 40 + 12 * x
    sc = Scaler().fit(x[:800])
    xs = sc(x)
    train = TensorDataset(xs[:800], y[:800])
    val = TensorDataset(sc(xs[800:]), y[800:])
    model = MLP(10, 4)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    return dict(model=model, batch=(xs[:64], y[:64]), loss=nn.CrossEntropyLoss(), optimizer=opt,
                loader=DataLoader(train, batch_size=64, shuffle=True), val_loader=DataLoader(val, batch_size=100))
