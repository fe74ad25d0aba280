"""BROKEN: The patches are reordered with reshape rather than a transpose, so tokens of different images are mixed.
An expert would want to hear: reshape(B, N, D) of a (N, B, D) tensor scrambles batch and tokens; samples leak into each
other; use transpose/permute.
Accept also: output of a sample depends on others in the batch; wrong view/reshape.
Does not count: "low accuracy".
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


class PatchTransformer(nn.Module):
    def __init__(self, k, d=48, p=4, size=16):
        super().__init__()
        self.p = p
        self.proj = nn.Linear(p * p, d)
        self.pos = nn.Parameter(0.02 * torch.randn((size // p) ** 2, d))
        self.enc = nn.TransformerEncoder(nn.TransformerEncoderLayer(d, 4, 96, dropout=0.0, batch_first=True), 2)
        self.head = nn.Linear(d, k)

    def forward(self, x):
        B = x.size(0)
        u = F.unfold(x, self.p, stride=self.p)
        tokens = self.proj(u.permute(2, 0, 1))
        tokens = tokens.reshape(B, -1, tokens.size(-1)) + self.pos
        return self.head(self.enc(tokens).mean(1))


def make():
    torch.manual_seed(0)
    x, y = pictures(512, 6)
    model = PatchTransformer(6)
    return dict(model=model, batch=(x[:32], y[:32]), loss=nn.CrossEntropyLoss(),
                loader=DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True),
                optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3))
