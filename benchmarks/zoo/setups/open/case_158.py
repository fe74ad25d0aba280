"""HEALTHY: GradScaler with unscale_ before clipping, step and update in the right order.
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
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)

    def step(model, batch, optimizer):
        optimizer.zero_grad()
        loss = F.mse_loss(model(batch[0]), batch[1])
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        return loss
    return dict(model=model, batch=(x[:64], y[:64]), loss=nn.MSELoss(), step=step,
                optimizer=torch.optim.Adam(model.parameters(), lr=5e-3),
                loader=DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True))
