"""HEALTHY: ViT with 20 warm-up steps from near zero and cosine decay over 400 steps. (The scheduler is stepped after every optimizer step.)
"""
import math
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


class ViT(nn.Module):
    def __init__(self, k, size=16, patch=4, ch=3, d=64, layers=2):
        super().__init__()
        self.patch = nn.Conv2d(ch, d, patch, patch)
        n = (size // patch) ** 2
        self.cls = nn.Parameter(torch.zeros(1, 1, d))
        self.pos = nn.Parameter(0.02 * torch.randn(1, n + 1, d))
        layer = nn.TransformerEncoderLayer(d, 4, 2 * d, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(d)
        self.head = nn.Linear(d, k)

    def forward(self, img):
        x = self.patch(img).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.pos
        x = self.encoder(x)
        return self.head(self.norm(x[:, 0]))


def make():
    torch.manual_seed(0)
    x, y = pictures(512, 6, ch=3)
    model = ViT(6, d=48)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)

    def factor(s):
        if s < 20:
            return (s + 1) / 20
        return 0.5 * (1 + math.cos(math.pi * min(1.0, (s - 20) / 380)))
    sched = torch.optim.lr_scheduler.LambdaLR(opt, factor)
    return dict(model=model, batch=(x[:32], y[:32]), loss=nn.CrossEntropyLoss(), optimizer=opt, scheduler=sched,
                loader=DataLoader(TensorDataset(x[:448], y[:448]), batch_size=32, shuffle=True),
                val_loader=DataLoader(TensorDataset(x[448:], y[448:]), batch_size=64))
