"""BROKEN: Padding positions (tag 0) are counted in the tagging loss and outnumber the real tokens.
An expert would want to hear: most positions are padding and enter the loss; the model gets a low loss for predicting
the pad tag; use ignore_index or a mask.
Accept also: loss dominated by padding; no ignore_index/mask for pads.
Does not count: "class imbalance" without padding.
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


class BiLSTMTagger(nn.Module):
    def __init__(self, V, K, d=32):
        super().__init__()
        self.emb = nn.Embedding(V, d, padding_idx=0)
        self.rnn = nn.LSTM(d, 32, batch_first=True, bidirectional=True)
        self.out = nn.Linear(64, K)

    def forward(self, tok):
        return self.out(self.rnn(self.emb(tok))[0])


def loss_fn(model, batch):
    tok, tag = batch
    return F.cross_entropy(model(tok).flatten(0, 1), tag.flatten())


def make():
    torch.manual_seed(0)
    V, K, T = 80, 5, 60
    tok, tag = tagged_sentences(384, T, V, K)
    tag = tag + 1
    lens = torch.randint(4, 14, (384,))
    pad = torch.arange(T)[None] >= lens[:, None]
    tok[pad], tag[pad] = 0, 0
    model = BiLSTMTagger(V, K + 1)
    loader = DataLoader(TensorDataset(tok, tag), batch_size=32, shuffle=True)
    return dict(model=model, batch=(tok[:32], tag[:32]), loss=loss_fn, loader=loader,
                optimizer=torch.optim.Adam(model.parameters(), lr=2e-3))
