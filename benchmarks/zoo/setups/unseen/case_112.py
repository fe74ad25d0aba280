"""HEALTHY: nn.Transformer encoder-decoder with teacher forcing, start token, causal target mask.
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
        m = nn.Transformer.generate_square_subsequent_mask(tgt.size(1))
        s = self.emb(src) + self.pos[:src.size(1)]
        t = self.emb(tgt) + self.pos[:tgt.size(1)]
        return self.out(self.tr(s, t, tgt_mask=m))


def seq_loss(logits, y):
    return F.cross_entropy(logits.flatten(0, 1), y.flatten())


def make():
    torch.manual_seed(0)
    V, T = 30, 8
    src = torch.randint(2, V, (512, T))
    tgt = (src + 3).remainder(V - 2) + 2
    dec_in = torch.cat([torch.ones(512, 1, dtype=torch.long), tgt[:, :-1]], 1)
    batches = [((src[i:i + 32], dec_in[i:i + 32]), tgt[i:i + 32]) for i in range(0, 512, 32)]
    model = Seq2Seq(V)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    return dict(model=model, batch=batches[0], loss=seq_loss, optimizer=opt, loader=batches)
