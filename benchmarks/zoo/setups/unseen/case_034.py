"""BROKEN: clip_grad_norm_ is called before backward, so the gradients that are applied are never clipped.
An expert would want to hear: clipping acts on empty/old gradients; the order must be backward, clip, step; the recurrent net
explodes without it.
Accept also: clipping has no effect; wrong order.
Does not count: "exploding gradients" alone.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def waves(n, T, seed=0):
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(T + 1).float()
    f = 0.1 + 0.4 * torch.rand(n, 1, generator=g)
    ph = 6.28 * torch.rand(n, 1, generator=g)
    return torch.sin(f * t + ph) + 0.05 * torch.randn(n, T + 1, generator=g)


class RNN(nn.Module):
    def __init__(self, h=48):
        super().__init__()
        self.rnn = nn.RNN(1, h, nonlinearity="relu", batch_first=True)
        with torch.no_grad():
            self.rnn.weight_hh_l0.copy_(torch.eye(h))
        self.fc = nn.Linear(h, 1)

    def forward(self, x):
        return self.fc(self.rnn(x)[0][:, -1])


def make():
    torch.manual_seed(0)
    w = waves(512, 40)
    x, y = w[:, :-1, None], w[:, -1:]
    model = RNN()

    def step(model, batch, optimizer):
        optimizer.zero_grad()
        loss = F.mse_loss(model(batch[0]), batch[1])
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        loss.backward()
        optimizer.step()
        return loss
    return dict(model=model, batch=(x[:32], y[:32]), loss=nn.MSELoss(), step=step,
                optimizer=torch.optim.SGD(model.parameters(), lr=0.05),
                loader=DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True))
