"""BROKEN: The decoder gets the unshifted target as its input, so it can copy each token it should predict.
An expert would want to hear: decoder input = target without right shift / start token; with a causal mask position t
still sees y_t; prepend BOS and drop the last.
Accept also: target fed as input; no shift right; decoder copies its input.
Does not count: "loss goes to zero fast".
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Translator(nn.Module):
    def __init__(self, V, d=64):
        super().__init__()
        self.src, self.tgt = nn.Embedding(V, d), nn.Embedding(V, d)
        self.encoder = nn.GRU(d, d, batch_first=True)
        self.decoder = nn.GRU(d, d, batch_first=True)
        self.out = nn.Linear(d, V)

    def forward(self, s, t):
        _, h = self.encoder(self.src(s))
        y, _ = self.decoder(self.tgt(t), h)
        return self.out(y)


def loss_fn(model, batch):
    s, t = batch["src"], batch["tgt"]
    logits = model(s, t)
    return F.cross_entropy(logits.transpose(1, 2), t)


def make():
    torch.manual_seed(0)
    V, T = 40, 9
    src = torch.randint(2, V, (640, T))
    tgt = (src + 5).remainder(V - 2) + 2
    tgt = tgt.flip(1)
    loader = [{"src": src[i:i + 64], "tgt": tgt[i:i + 64]} for i in range(0, 640, 64)]
    model = Translator(V)
    return dict(model=model, batch=loader[0], loss=loss_fn, loader=loader,
                optimizer=torch.optim.Adam(model.parameters(), lr=2e-3))
