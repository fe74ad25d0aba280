"""BROKEN: In a siamese set the second images come from their own shuffled loader, so the same/different label does not fit the pair.
An expert would want to hear: the pair (a, b) is torn apart by shuffling b separately; the label is noise with respect
to the pair; keep a, b, and label in one dataset.
Accept also: labels do not match the inputs; pairing broken; random labels.
Does not count: "distance collapses", "loss stays at 0.69".
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def pictures(n, k, size=16, ch=1, noise=0.5, seed=0):
    g = torch.Generator().manual_seed(seed)
    proto = torch.randn(k, ch, size // 4, size // 4, generator=g)
    proto = F.interpolate(proto, size=(size, size), mode="bilinear", align_corners=False)
    y = torch.randint(0, k, (n,), generator=g)
    return proto[y] + noise * torch.randn(n, ch, size, size, generator=g), y


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Flatten(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 32))
        self.out = nn.Linear(32, 1)

    def forward(self, a, b):
        return self.out((self.enc(a) - self.enc(b)).abs()).squeeze(1)


def make():
    torch.manual_seed(5)
    x, y = pictures(1200, 6)
    i, j = torch.randint(0, 1200, (2, 2000))
    keep = (y[i] == y[j]) | (torch.rand(2000) < 0.2)
    i, j = i[keep], j[keep]
    same = (y[i] == y[j]).float()
    n = len(same) // 64 * 64
    left = DataLoader(TensorDataset(x[i[:n]], same[:n]), batch_size=64, shuffle=True)
    right = DataLoader(x[j[:n]], batch_size=64, shuffle=True)
    loader = [((a, b), s) for (a, s), b in zip(left, right)]
    model = Siamese()
    return dict(model=model, batch=loader[0], loss=nn.BCEWithLogitsLoss(), loader=loader,
                optimizer=torch.optim.Adam(model.parameters(), lr=1e-3))
