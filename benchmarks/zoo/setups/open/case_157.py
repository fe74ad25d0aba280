"""BROKEN: The forecast target is inside the input window because the slice is one too long.
An expert would want to hear: the window already contains the value to predict as its last step; off-by-one in slicing
leaks the target; the forecast is a copy.
Accept also: target leak; look-ahead; target is part of the input.
Does not count: "too low loss".
"""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class TCN(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.net = nn.Sequential(nn.Conv1d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv1d(16, 16, 3, padding=1), nn.ReLU(),
                                 nn.Flatten(), nn.Linear(16 * w, 1))

    def forward(self, x):
        return self.net(x.unsqueeze(1))


def windows(s, w):
    xs, ys = [], []
    for i in range(len(s) - w):
        xs.append(s[i:i + w])
        ys.append(s[i + w - 1:i + w])
    return torch.stack(xs), torch.stack(ys)


def make():
    torch.manual_seed(0)
    noise = torch.randn(700)
    s = torch.zeros(700)
    for i in range(1, 700):
        s[i] = 0.8 * s[i - 1] + noise[i]
    s = (s - s.mean()) / s.std()
    x, y = windows(s, 16)
    loader = DataLoader(TensorDataset(x[:500], y[:500]), batch_size=50, shuffle=True)
    val = DataLoader(TensorDataset(x[520:], y[520:]), batch_size=82)
    model = TCN(16)
    return dict(model=model, batch=(x[:50], y[:50]), loss=nn.MSELoss(), loader=loader, val_loader=val,
                optimizer=torch.optim.Adam(model.parameters(), lr=2e-3))
