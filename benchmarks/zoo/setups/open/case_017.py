"""BROKEN: The window dataset ignores its index, so every item returns the first window while labels differ.
An expert would want to hear: all inputs in a batch are the same (index not used in slicing) while targets vary; nothing
to learn but the mean; use idx in __getitem__.
Accept also: duplicated/identical inputs; input does not depend on the sample.
Does not count: "underfitting".
"""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


def waves(n, T, seed=0):
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(T + 1).float()
    f = 0.1 + 0.4 * torch.rand(n, 1, generator=g)
    ph = 6.28 * torch.rand(n, 1, generator=g)
    return torch.sin(f * t + ph) + 0.05 * torch.randn(n, T + 1, generator=g)


class Windows(Dataset):
    def __init__(self, series, length):
        self.s, self.n = series, length
        self.start = 0

    def __len__(self):
        return len(self.s) - self.n

    def __getitem__(self, i):
        return self.s[self.start:self.start + self.n].unsqueeze(1), self.s[i + self.n].view(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(1, 32, batch_first=True)
        self.fc = nn.Linear(32, 1)

    def forward(self, x):
        return self.fc(self.rnn(x)[0][:, -1])


def make():
    torch.manual_seed(0)
    t = torch.arange(500).float()
    series = torch.sin(0.21 * t) + 0.3 * torch.sin(0.57 * t)
    loader = DataLoader(Windows(series, 20), batch_size=32, shuffle=True)
    model = Net()
    return dict(model=model, batch=next(iter(loader)), loss=nn.MSELoss(), loader=loader,
                optimizer=torch.optim.Adam(model.parameters(), lr=3e-3))
