"""BROKEN: The language model's targets are the input tokens themselves; the shift by one was forgotten.
An expert would want to hear: labels equal inputs at the same position, the model learns to copy; shift targets by one.
Accept also: identity task; missing shift; target leaks from the input.
Does not count: "loss drops quickly".
"""
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


class LM(nn.Module):
    def __init__(self, V, d=64):
        super().__init__()
        self.emb = nn.Embedding(V, d)
        self.rnn = nn.GRU(d, d, num_layers=2, batch_first=True)
        self.out = nn.Linear(d, V)

    def forward(self, x):
        h, _ = self.rnn(self.emb(x))
        return self.out(h)


def lm_loss(model, batch):
    x, y = batch
    logits = model(x)
    return F.cross_entropy(logits.reshape(-1, logits.size(-1)), y.reshape(-1))


def make():
    torch.manual_seed(0)
    V = 64
    data = markov(320, 24, V)
    loader = DataLoader(TensorDataset(data, data.clone()), batch_size=32, shuffle=True)
    model = LM(V)
    return dict(model=model, batch=(data[:32], data[:32].clone()), loss=lm_loss, loader=loader,
                optimizer=torch.optim.Adam(model.parameters(), lr=1e-3))
