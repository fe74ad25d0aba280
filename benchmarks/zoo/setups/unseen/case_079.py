"""HEALTHY: GRU encoder-decoder with right-shifted decoder inputs and padded targets ignored in the loss.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Seq2Seq(nn.Module):
    def __init__(self, V, d=64):
        super().__init__()
        self.emb = nn.Embedding(V, d, padding_idx=0)
        self.enc, self.dec = nn.GRU(d, d, batch_first=True), nn.GRU(d, d, batch_first=True)
        self.out = nn.Linear(d, V)

    def forward(self, s, t):
        _, h = self.enc(self.emb(s))
        return self.out(self.dec(self.emb(t), h)[0])


def loss_fn(model, batch):
    logits = model(batch["src"], batch["dec_in"])
    return F.cross_entropy(logits.transpose(1, 2), batch["labels"], ignore_index=0)


def make():
    torch.manual_seed(0)
    V, T = 16, 5
    s = torch.randint(2, V, (640, T))
    lab = s.clone()
    lab[torch.arange(T)[None] >= torch.randint(2, T + 1, (640, 1))] = 0
    s = s * (lab != 0)
    d = torch.cat([torch.ones(640, 1, dtype=torch.long), lab[:, :-1]], 1)
    loader = [{"src": s[i:i + 64], "dec_in": d[i:i + 64], "labels": lab[i:i + 64]} for i in range(0, 640, 64)]
    model = Seq2Seq(V)
    return dict(model=model, batch=loader[0], loss=loss_fn, loader=loader, optimizer=torch.optim.Adam(model.parameters(), lr=5e-3))
