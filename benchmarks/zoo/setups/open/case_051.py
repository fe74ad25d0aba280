"""BROKEN: ExponentialLR with gamma 0.7 is stepped once per batch, so training stops after some 20 batches. (The scheduler is stepped after every optimizer step.)
An expert would want to hear: gamma=0.7 per batch gives lr*1e-8 after 50 batches; step per epoch or use gamma near 1.
Accept also: learning rate decays to nothing.
Does not count: "underfits".
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


class GRULM(nn.Module):
    def __init__(self, V, d=48):
        super().__init__()
        self.emb = nn.Embedding(V, d)
        self.rnn = nn.GRU(d, d, batch_first=True)
        self.out = nn.Linear(d, V)

    def forward(self, x):
        return self.out(self.rnn(self.emb(x))[0])


def lm_loss(model, batch):
    x, y = batch
    logits = model(x)
    return F.cross_entropy(logits.reshape(-1, logits.size(-1)), y.reshape(-1))


def make():
    torch.manual_seed(0)
    s = markov(640, 21, 30)
    x, y = s[:, :-1], s[:, 1:]
    model = GRULM(30)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    return dict(model=model, batch=(x[:16], y[:16]), loss=lm_loss, optimizer=opt,
                scheduler=torch.optim.lr_scheduler.ExponentialLR(opt, gamma=0.7),
                loader=DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True))
