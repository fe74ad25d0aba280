"""HEALTHY: Causal dilated convolutions with LayerNorm over channels predict the next value.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def waves(n, T, seed=0):
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(T + 1).float()
    f = 0.1 + 0.4 * torch.rand(n, 1, generator=g)
    ph = 6.28 * torch.rand(n, 1, generator=g)
    return torch.sin(f * t + ph) + 0.05 * torch.randn(n, T + 1, generator=g)


class CausalConv(nn.Module):
    def __init__(self, cin, cout, dil):
        super().__init__()
        self.pad = 2 * dil
        self.conv = nn.Conv1d(cin, cout, 3, dilation=dil)
        self.ln = nn.LayerNorm(cout)

    def forward(self, x):
        y = self.conv(F.pad(x, (self.pad, 0)))
        return F.relu(self.ln(y.transpose(1, 2)).transpose(1, 2))


class TCN(nn.Module):
    def __init__(self, c=24):
        super().__init__()
        self.body = nn.Sequential(CausalConv(1, c, 1), CausalConv(c, c, 2), CausalConv(c, c, 4), nn.Conv1d(c, 1, 1))

    def forward(self, x):
        return self.body(x[:, None]).squeeze(1)


def make():
    torch.manual_seed(0)
    w = waves(256, 40)
    x, y = w[:, :-1], w[:, 1:]
    model = TCN()
    return dict(model=model, batch=(x[:32], y[:32]), loss=nn.MSELoss(), optimizer=torch.optim.Adam(model.parameters(), lr=3e-3),
                loader=DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True))
