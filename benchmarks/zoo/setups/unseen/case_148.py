"""HEALTHY: Siamese network with shared encoder and margin loss; many pairs are beyond the margin and give no gradient.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def pictures(n, k, size=16, ch=1, noise=0.5, seed=0):
    g = torch.Generator().manual_seed(seed)
    proto = torch.randn(k, ch, size // 4, size // 4, generator=g)
    proto = F.interpolate(proto, size=(size, size), mode="bilinear", align_corners=False)
    y = torch.randint(0, k, (n,), generator=g)
    return proto[y] + noise * torch.randn(n, ch, size, size, generator=g), y


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Flatten(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 16))

    def forward(self, a, b):
        return F.pairwise_distance(self.enc(a), self.enc(b))


def margin_loss(dist, same):
    return (same * dist ** 2 + (1 - same) * F.relu(2.0 - dist) ** 2).mean()


def make():
    torch.manual_seed(0)
    x, y = pictures(800, 6)
    loader = []
    for _ in range(12):
        i, j = torch.randint(0, 800, (2, 400))
        same = (y[i] == y[j])
        pick = torch.cat([same.nonzero().flatten()[:32], (~same).nonzero().flatten()[:32]])
        pick = pick[torch.randperm(64)]
        loader.append(((x[i[pick]], x[j[pick]]), same[pick].float()))
    model = Siamese()
    return dict(model=model, batch=loader[0], loss=margin_loss, loader=loader, optimizer=torch.optim.Adam(model.parameters(), lr=1e-3))
