"""BROKEN: Padded targets hold 0 but the loss ignores -100, so the padding is trained on.
An expert would want to hear: ignore_index (-100) never occurs in the targets, pads are 0 and count; set ignore_index=0
or fill labels with -100.
Accept also: padding counted in the loss; ignore_index does not match the pad id.
Does not count: "loss too low".
"""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def markov(n, T, V, seed=0):
    g = torch.Generator().manual_seed(seed)
    P = torch.rand(V, V, generator=g) ** 8
    s = [torch.randint(0, V, (n,), generator=g)]
    for _ in range(T - 1):
        s.append(torch.multinomial(P[s[-1]], 1, generator=g).squeeze(1))
    return torch.stack(s, 1)


class SelfAttention(nn.Module):
    def __init__(self, d, heads, T):
        super().__init__()
        self.h = heads
        self.qkv = nn.Linear(d, 3 * d)
        self.out = nn.Linear(d, d)
        self.register_buffer("tril", torch.tril(torch.ones(T, T)))

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(x).split(C, dim=2)
        q, k, v = (t.view(B, T, self.h, C // self.h).transpose(1, 2) for t in (q, k, v))
        att = q @ k.transpose(-2, -1) / math.sqrt(C // self.h)
        att = att.masked_fill(self.tril[:T, :T] == 0, float("-inf"))
        att = F.softmax(att, dim=-1)
        y = (att @ v).transpose(1, 2).reshape(B, T, C)
        return self.out(y)


class Block(nn.Module):
    def __init__(self, d, heads, T):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.attn = SelfAttention(d, heads, T)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        x = x + self.mlp(self.ln2(x))
        return x


class GPT(nn.Module):
    def __init__(self, V, T, d=64, heads=4, layers=2):
        super().__init__()
        self.tok = nn.Embedding(V, d)
        self.pos = nn.Embedding(T, d)
        self.blocks = nn.ModuleList([Block(d, heads, T) for _ in range(layers)])
        self.ln = nn.LayerNorm(d)
        self.head = nn.Linear(d, V, bias=False)
        self.apply(self._init)

    def _init(self, m):
        if isinstance(m, (nn.Linear, nn.Embedding)):
            nn.init.normal_(m.weight, std=0.02)
        if isinstance(m, nn.Linear) and m.bias is not None:
            nn.init.zeros_(m.bias)

    def forward(self, idx):
        x = self.tok(idx) + self.pos(torch.arange(idx.size(1), device=idx.device))
        for b in self.blocks:
            x = b(x)
        return self.head(self.ln(x))

PAD = 0


def make():
    torch.manual_seed(2)
    V, T = 48, 40
    data = markov(256, T + 1, V - 1, seed=2) + 1
    lens = torch.randint(6, 16, (256,))
    data[torch.arange(T + 1)[None] >= lens[:, None]] = PAD
    x, y = data[:, :-1], data[:, 1:]
    crit = nn.CrossEntropyLoss(ignore_index=-100)

    def loss(model, batch):
        a, b = batch
        return crit(model(a).transpose(1, 2), b)
    model = GPT(V, T)
    return dict(model=model, batch=(x[:16], y[:16]), loss=loss, optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3),
                loader=DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True))
