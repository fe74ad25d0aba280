"""BROKEN: Gradients of 16 micro-batches are summed without dividing the loss by 16.
An expert would want to hear: accumulated gradient is 16 times too large for the chosen SGD lr; divide by the number of
accumulation steps.
Accept also: effective lr too high because of accumulation.
Does not count: "unstable".
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

ACCUM = 16


def make():
    torch.manual_seed(0)
    x, y = pictures(512, 6, ch=3)
    model = ViT(6, d=48)
    crit = nn.CrossEntropyLoss()

    def step(model, batch, optimizer):
        optimizer.zero_grad()
        xs, ys = batch[0].chunk(ACCUM), batch[1].chunk(ACCUM)
        total = 0.0
        for a, b in zip(xs, ys):
            loss = crit(model(a), b)
            loss.backward()
            total += loss.item()
        optimizer.step()
        return total / ACCUM
    return dict(model=model, batch=(x[:64], y[:64]), loss=crit, step=step,
                optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
                loader=DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True))
