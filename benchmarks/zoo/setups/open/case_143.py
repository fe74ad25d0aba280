"""BROKEN: Batch-first data go into an LSTM without batch_first, so the recurrence runs over the batch.
An expert would want to hear: nn.LSTM expects (T, B, C) here, gets (B, T, C); it recurs over samples and mixes examples,
while time steps are treated as batch; set batch_first=True.
Accept also: samples in a batch influence each other; dimensions swapped in the RNN.
Does not count: "underfits".
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


class SeriesNet(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.lstm = nn.LSTM(1, 32)
        self.fc = nn.Linear(32, k)

    def forward(self, x):
        h, _ = self.lstm(x)
        return self.fc(h[:, -1])


def make():
    torch.manual_seed(0)
    slow, fast = waves(300, 30, seed=1), waves(300, 30, seed=2)
    fast = fast[:, torch.arange(31) * 3 % 31]
    x = torch.cat([slow, fast]).unsqueeze(2)
    y = torch.cat([torch.zeros(300), torch.ones(300)]).long()
    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True, drop_last=True)
    model = SeriesNet(2)
    return dict(model=model, batch=next(iter(loader)), loss=nn.CrossEntropyLoss(), loader=loader,
                optimizer=torch.optim.Adam(model.parameters(), lr=3e-3))
