"""BROKEN: The metric function switches a dropout model to eval and leaves it there; the step does not call train().
An expert would want to hear: evaluation changes the mode as a side effect, so training goes on in eval mode without
dropout; restore model.train().
Accept also: metric leaves the model in eval.
Does not count: "no regularisation".
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
    def __init__(self, V, K):
        super().__init__()
        self.emb = nn.Embedding(V, 32)
        self.drop = nn.Dropout(0.3)
        self.rnn = nn.LSTM(32, 48, batch_first=True)
        self.bn = nn.BatchNorm1d(48)
        self.out = nn.Linear(48, K)

    def forward(self, t):
        h, _ = self.rnn(self.drop(self.emb(t)))
        return self.out(self.bn(h.transpose(1, 2)).transpose(1, 2))


def make():
    torch.manual_seed(0)
    tok, tag = tagged_sentences(400, 15, 50, 5)
    model = Tagger(50, 5)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    loader = DataLoader(TensorDataset(tok, tag), batch_size=40, shuffle=True)

    def loss_fn(model, batch):
        return F.cross_entropy(model(batch[0]).flatten(0, 1), batch[1].flatten())

    def accuracy(model, batch):
        model.eval()
        with torch.no_grad():
            return (model(batch[0]).argmax(2) == batch[1]).float().mean().item()

    def step(model, batch, optimizer):
        optimizer.zero_grad()
        loss = loss_fn(model, batch)
        loss.backward()
        optimizer.step()
        accuracy(model, batch)
        return loss
    return dict(model=model, batch=(tok[:40], tag[:40]), loss=loss_fn, optimizer=opt, loader=loader, metric=accuracy, step=step)
