"""BROKEN: The tag sequence is one position off from the tokens it belongs to.
An expert would want to hear: the targets are misaligned with the inputs (tags are rolled by one because a start
token was prepended to the sentence but not to the tags); the model learns the neighbour's tag, or nothing.
Accept also: off-by-one labels; label/input misalignment; targets shifted in time against inputs.
Does not count: "loss plateaus", "model too small".
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def tagged_sentences(n, T, V, K, seed=0):
    g = torch.Generator().manual_seed(seed)
    tok = torch.randint(1, V, (n, T), generator=g)
    cls = torch.randint(0, K, (V,), generator=g)
    prev = torch.roll(tok, 1, 1)
    prev[:, 0] = 0
    tag = (cls[tok] + (prev % 2)) % K
    return tok, tag


class Tagger(nn.Module):
    def __init__(self, V, K, d=32):
        super().__init__()
        self.emb = nn.Embedding(V, d)
        self.conv = nn.Conv1d(d, 64, 1)
        self.out = nn.Linear(64, K)

    def forward(self, tok):
        e = self.emb(tok)
        h = F.relu(self.conv(e.transpose(1, 2))).transpose(1, 2)
        return self.out(h)


def tag_loss(model, batch):
    tok, tag = batch
    return F.cross_entropy(model(tok).transpose(1, 2), tag)


def make():
    torch.manual_seed(0)
    V, K = 60, 6
    tok, tag = tagged_sentences(512, 20, V, K)
    bos = torch.zeros(len(tok), 1, dtype=torch.long)
    tok = torch.cat([bos, tok], 1)[:, :20]
    model = Tagger(V, K)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    loader = DataLoader(TensorDataset(tok, tag), batch_size=64, shuffle=True)
    return dict(model=model, batch=(tok[:64], tag[:64]), loss=tag_loss, optimizer=opt, loader=loader)
