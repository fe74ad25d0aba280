"""BROKEN: Raw table columns with scales from 0.01 to 100000 go into the network unstandardised.
An expert would want to hear: features have wildly different and huge scales (income, square metres), the big columns
dominate and the small ones are invisible; standardise.
Accept also: inputs not normalised; feature scaling missing; input magnitude too large.
Does not count: "large gradients", "loss explodes" without the input scale.
"""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class MLP(nn.Module):
    def __init__(self, d, out, h=64):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, out))

    def forward(self, x):
        return self.net(x)


def make():
    torch.manual_seed(0)
    n = 1000
    age = 18 + 60 * torch.rand(n)
    income = 20000 + 90000 * torch.rand(n)
    rate = 0.01 + 0.05 * torch.rand(n)
    debt = 300000 * torch.rand(n) ** 2
    late = torch.randint(0, 4, (n,)).float()
    risk = 40 * (rate - 0.035) + 0.8 * (late - 1.5) - 0.01 * (age - 48) + 0.3 * torch.randn(n)
    x = torch.stack([age, income, rate, debt, late], 1)
    y = (risk > 0).long()
    loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True)
    model = MLP(5, 2)
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    return dict(model=model, batch=(x[:64], y[:64]), loss=nn.CrossEntropyLoss(), optimizer=opt, loader=loader)
