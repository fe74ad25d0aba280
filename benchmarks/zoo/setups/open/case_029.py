"""BROKEN: The forecaster is trained with MSE on raw targets of the order of 200000.
An expert would want to hear: targets are not scaled, the output layer starts near 0 and needs to reach 2e5, the loss
is ~1e10 and Adam needs forever; standardise targets (or predict differences / log).
Accept also: target scale/offset far from output scale; regression targets unnormalised.
Does not count: "loss is huge" with no mention of target scale.
"""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def waves(n, T, seed=0):
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(T + 1).float()
    f = 0.1 + 0.4 * torch.rand(n, 1, generator=g)
    ph = 6.28 * torch.rand(n, 1, generator=g)
    return torch.sin(f * t + ph) + 0.05 * torch.randn(n, T + 1, generator=g)


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(1, 48, batch_first=True)
        self.fc = nn.Linear(48, 1)

    def forward(self, x):
        h, _ = self.rnn(x)
        return self.fc(h[:, -1])


def make():
    torch.manual_seed(1)
    w = waves(600, 24)
    x = w[:, :-1].unsqueeze(2)
    demand = 200000 + 50000 * w[:, -1:]
    loader = DataLoader(TensorDataset(x, demand), batch_size=50, shuffle=True)
    model = Forecaster()
    return dict(model=model, batch=(x[:50], demand[:50]), loss=nn.MSELoss(), loader=loader,
                optimizer=torch.optim.Adam(model.parameters(), lr=1e-3))
