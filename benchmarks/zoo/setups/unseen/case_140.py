"""BROKEN: The model returns sigmoid probabilities and the loss function applies sigmoid to them once more before BCE.
An expert would want to hear: two sigmoids in a row, output confined to 0.5..0.73; drop one.
Accept also: probabilities treated as logits.
Does not count: "underfits".
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def blobs(n, d, k, spread=1.0, seed=0):
    g = torch.Generator().manual_seed(seed)
    centers = torch.randn(k, d, generator=g)
    y = torch.randint(0, k, (n,), generator=g)
    return centers[y] + spread * torch.randn(n, d, generator=g), y


class Scorer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 1), nn.Sigmoid())

    def forward(self, x):
        return self.net(x).squeeze(-1)


def loss_fn(model, batch):
    x, y = batch
    p = torch.sigmoid(model(x))
    return F.binary_cross_entropy(p, y)


def make():
    torch.manual_seed(0)
    x, y = blobs(600, 10, 2)
    y = y.float()
    model = Scorer(10)
    return dict(model=model, batch=(x[:60], y[:60]), loss=loss_fn, optimizer=torch.optim.Adam(model.parameters(), lr=3e-3),
                loader=DataLoader(TensorDataset(x, y), batch_size=60, shuffle=True))
