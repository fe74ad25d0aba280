"""HEALTHY: An LSTM with batch_first=False whose inputs are properly transposed to time-major.
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


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(1, 32)
        self.fc = nn.Linear(32, 1)

    def forward(self, x):
        h, _ = self.lstm(x.transpose(0, 1).unsqueeze(2))
        return self.fc(h[-1])


def make():
    torch.manual_seed(0)
    w = waves(512, 20)
    x, y = w[:, :-1], w[:, -1:]
    model = Net()
    return dict(model=model, batch=(x[:64], y[:64]), loss=nn.MSELoss(), optimizer=torch.optim.Adam(model.parameters(), lr=5e-3),
                loader=DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True))
