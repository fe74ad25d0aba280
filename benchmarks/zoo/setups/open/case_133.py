"""HEALTHY: Contrastive InfoNCE whose loss depends on the rest of the batch by design.
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


class Encoder(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, d))

    def forward(self, a, b):
        return F.normalize(self.net(a), dim=1), F.normalize(self.net(b), dim=1)


def info_nce(out, target):
    za, zb = out
    logits = za @ zb.T / 0.2
    return 0.5 * (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target))


def make():
    torch.manual_seed(0)
    x, _ = pictures(640, 200)
    batches = []
    for i in range(0, 640, 64):
        v = x[i:i + 64]
        batches.append(((v + 0.3 * torch.randn_like(v), v + 0.3 * torch.randn_like(v)), torch.arange(64)))
    model = Encoder()
    return dict(model=model, batch=batches[0], loss=info_nce, loader=batches, optimizer=torch.optim.Adam(model.parameters(), lr=1e-3))
