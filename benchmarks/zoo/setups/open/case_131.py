"""BROKEN: Some rows of the table hold NaN, which poisons the weights at the first batch that contains one.
An expert would want to hear: missing values were not imputed; NaN in the inputs leads to NaN loss and weights; impute or
drop.
Accept also: NaN/non-finite values in the data.
Does not count: "loss is NaN" blamed on the learning rate.
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
    x, y = table(600, 8)
    holes = torch.rand(600, 8) < 0.004
    x[holes] = float("nan")
    ds = TensorDataset(x, y[:, None])
    loader = DataLoader(ds, batch_size=60, shuffle=True)
    model = MLP(8, 1)
    return dict(model=model, batch=next(iter(loader)), loss=nn.MSELoss(), loader=loader,
                optimizer=torch.optim.Adam(model.parameters(), lr=1e-3))
