"""HEALTHY: One transformer block applied four times on purpose (ALBERT / universal transformer style recurrence in depth).
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
        self.block, self.depth = Block(d, heads, T), layers
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
        for _ in range(self.depth):
            x = self.block(x)
        return self.head(self.ln(x))


def lm_loss(model, batch):
    x, y = batch
    logits = model(x)
    return F.cross_entropy(logits.reshape(-1, logits.size(-1)), y.reshape(-1))


def make():
    torch.manual_seed(0)
    V, T = 32, 20
    data = markov(256, T + 1, V, seed=7)
    x, y = data[:, :-1], data[:, 1:]
    model = GPT(V, T, d=48, layers=4)
    return dict(model=model, batch=(x[:16], y[:16]), loss=lm_loss, optimizer=torch.optim.AdamW(model.parameters(), lr=2e-3),
                loader=DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True))
