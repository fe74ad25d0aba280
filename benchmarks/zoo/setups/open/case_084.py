"""BROKEN: The encoder state passes through .data before the decoder, which cuts the gradient to the whole encoder.
An expert would want to hear: h.data detaches; the encoder and source embeddings get no gradient and stay random.
Accept also: encoder without gradient; graph broken.
Does not count: "slow training".
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Seq2Seq(nn.Module):
    def __init__(self, V, d=64):
        super().__init__()
        self.semb, self.temb = nn.Embedding(V, d), nn.Embedding(V, d)
        self.enc, self.dec = nn.GRU(d, d, batch_first=True), nn.GRU(d, d, batch_first=True)
        self.out = nn.Linear(d, V)

    def forward(self, s, t):
        _, h = self.enc(self.semb(s))
        h = h.data.contiguous()
        return self.out(self.dec(self.temb(t), h)[0])


def loss_fn(out, y):
    return F.cross_entropy(out.transpose(1, 2), y)


def make():
    torch.manual_seed(0)
    V = 20
    s = torch.randint(2, V, (640, 5))
    t = s.flip(1)
    tin = torch.cat([torch.ones(640, 1, dtype=torch.long), t[:, :-1]], 1)
    loader = [((s[i:i + 64], tin[i:i + 64]), t[i:i + 64]) for i in range(0, 640, 64)]
    model = Seq2Seq(V)
    return dict(model=model, batch=loader[0], loss=loss_fn, loader=loader,
                optimizer=torch.optim.Adam(model.parameters(), lr=3e-3))
