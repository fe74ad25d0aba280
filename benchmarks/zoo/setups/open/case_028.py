"""BROKEN: The warm-up is set to a million steps while it is stepped once per batch in a short run, so the lr stays near zero. (The scheduler is stepped after every optimizer step; the run has 500 steps.)
An expert would want to hear: warmup_steps far exceeds the training length, the lr never gets up; use a few percent of the
steps.
Accept also: learning rate effectively ~0 due to the scheduler.
Does not count: "underfits".
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
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    warmup = 1_000_000
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / warmup))
    return dict(model=model, batch=(x[:32], y[:32]), loss=nn.CrossEntropyLoss(), optimizer=opt, scheduler=sched,
                loader=DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True))
