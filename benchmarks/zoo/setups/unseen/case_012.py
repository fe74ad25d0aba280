"""BROKEN: A GRU classifier is fed folder by folder (one label per batch) since the files are listed class after class.
An expert would want to hear: every batch contains one label only; gradient pushes the bias to that label; need shuffling
or a balanced sampler.
Accept also: data sorted by label; loader not shuffled; homogeneous batches.
Does not count: "forgetting", "unstable loss" alone.
"""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader


def waves(n, T, seed=0):
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(T + 1).float()
    f = 0.1 + 0.4 * torch.rand(n, 1, generator=g)
    ph = 6.28 * torch.rand(n, 1, generator=g)
    return torch.sin(f * t + ph) + 0.05 * torch.randn(n, T + 1, generator=g)


class GRUClassifier(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.rnn = nn.GRU(1, 32, batch_first=True)
        self.fc = nn.Linear(32, k)

    def forward(self, x):
        return self.fc(self.rnn(x)[1][-1])


def make():
    torch.manual_seed(2)
    parts = []
    for label in range(4):
        w = waves(100, 40, seed=label) * (1 + label) * 0.4
        parts += [(s.unsqueeze(1), torch.tensor(label)) for s in w]
    loader = DataLoader(parts, batch_size=25, shuffle=False)
    model = GRUClassifier(4)
    return dict(model=model, batch=next(iter(loader)), loss=nn.CrossEntropyLoss(), loader=loader,
                optimizer=torch.optim.Adam(model.parameters(), lr=5e-3))
