"""BROKEN: Gradients are clipped while still multiplied by the loss scale, since scaler.unscale_ is missing before clipping.
An expert would want to hear: clip_grad_norm_ to 1.0 acts on gradients 65536 times too large, after unscaling the real norm is
1.5e-5; call scaler.unscale_(optimizer) first.
Accept also: clipping of scaled gradients; updates far too small because of it.
Does not count: "lr too small".
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


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(1, 32, batch_first=True)
        self.fc = nn.Linear(32, 1)

    def forward(self, x):
        return self.fc(self.rnn(x)[0][:, -1])


def make():
    torch.manual_seed(0)
    w = waves(512, 20)
    x, y = w[:, :-1, None], w[:, -1:]
    model = Net()
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 16)

    def step(model, batch, optimizer):
        optimizer.zero_grad()
        loss = F.mse_loss(model(batch[0]), batch[1])
        scaler.scale(loss).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        return loss
    return dict(model=model, batch=(x[:64], y[:64]), loss=nn.MSELoss(), step=step,
                optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
                loader=DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True))
