"""BROKEN: log_softmax runs over the batch axis rather than the class axis.
An expert would want to hear: dim=0 normalises over samples, so examples compete with each other and the class scores are
not a distribution; dim=1.
Accept also: wrong softmax dimension in the loss; loss of a sample depends on other samples.
Does not count: "bad accuracy".
"""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def blobs(n, d, k, spread=1.0, seed=0):
    g = torch.Generator().manual_seed(seed)
    centers = torch.randn(k, d, generator=g)
    y = torch.randint(0, k, (n,), generator=g)
    return centers[y] + spread * torch.randn(n, d, generator=g), y


class MLP(nn.Module):
    def __init__(self, d, out, h=64):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, out))

    def forward(self, x):
        return self.net(x)


def cross_entropy(logits, y):
    logp = torch.log_softmax(logits, 0)
    return -logp[torch.arange(len(y)), y].mean()


def make():
    torch.manual_seed(0)
    x, y = blobs(800, 12, 6, spread=1.5)
    model = MLP(12, 6)
    return dict(model=model, batch=(x[:80], y[:80]), loss=cross_entropy,
                optimizer=torch.optim.Adam(model.parameters(), lr=1e-3),
                loader=DataLoader(TensorDataset(x, y), batch_size=80, shuffle=True))
