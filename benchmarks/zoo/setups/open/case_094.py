"""BROKEN: The decoder of nn.Transformer is trained by teacher forcing without tgt_mask.
An expert would want to hear: decoder self-attention is not causal, so it reads the next target tokens; at inference it
fails; pass generate_square_subsequent_mask.
Accept also: decoder sees the future/target; missing tgt_mask.
Does not count: "train/inference gap" alone.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Seq2Seq(nn.Module):
    def __init__(self, V, d=48):
        super().__init__()
        self.emb = nn.Embedding(V, d)
        self.pos = nn.Parameter(0.02 * torch.randn(64, d))
        self.tr = nn.Transformer(d, 4, 1, 1, 96, dropout=0.0, batch_first=True)
        self.out = nn.Linear(d, V)

    def forward(self, src, tgt):
        s = self.emb(src) + self.pos[:src.size(1)]
        t = self.emb(tgt) + self.pos[:tgt.size(1)]
        return self.out(self.tr(s, t))


def seq_loss(logits, y):
    return F.cross_entropy(logits.flatten(0, 1), y.flatten())


def make():
    torch.manual_seed(0)
    V, T = 30, 10
    src = torch.randint(2, V, (512, T))
    tgt = src.flip(1)
    dec_in = torch.cat([torch.ones(512, 1, dtype=torch.long), tgt[:, :-1]], 1)
    batches = [((src[i:i + 32], dec_in[i:i + 32]), tgt[i:i + 32]) for i in range(0, 512, 32)]
    model = Seq2Seq(V)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    return dict(model=model, batch=batches[0], loss=seq_loss, optimizer=opt, loader=batches)
