"""BROKEN: Character LSTM language model is trained on targets two steps ahead because the labels are shifted in collate and again in training.
An expert would want to hear: shift applied twice, the model learns to skip a character; sampling from it gives
garbage; shift only once.
Accept also: targets misaligned by one; predicts t+2 instead of t+1.
Does not count: "high perplexity".
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader


def markov(n, T, V, seed=0):
    g = torch.Generator().manual_seed(seed)
    P = torch.rand(V, V, generator=g) ** 8
    s = [torch.randint(0, V, (n,), generator=g)]
    for _ in range(T - 1):
        s.append(torch.multinomial(P[s[-1]], 1, generator=g).squeeze(1))
    return torch.stack(s, 1)


class CharLSTM(nn.Module):
    def __init__(self, V, d=48):
        super().__init__()
        self.emb = nn.Embedding(V, d)
        self.rnn = nn.LSTM(d, 96, batch_first=True)
        self.out = nn.Linear(96, V)

    def forward(self, x):
        return self.out(self.rnn(self.emb(x))[0])


def collate(rows):
    s = torch.stack(rows)
    return s[:, :-1], s[:, 1:]


def loss_fn(model, batch):
    inp, lab = batch
    out = model(inp[:, :-1])
    return F.cross_entropy(out.flatten(0, 1), lab[:, 1:].flatten())


def make():
    torch.manual_seed(3)
    text = markov(400, 30, 27, seed=4)
    loader = DataLoader(list(text), batch_size=32, shuffle=True, collate_fn=collate)
    model = CharLSTM(27)
    return dict(model=model, batch=next(iter(loader)), loss=loss_fn, loader=loader,
                optimizer=torch.optim.Adam(model.parameters(), lr=2e-3))
