"""BROKEN: A causal sequence model normalises with batch statistics over time, which carry the future into every step.
An expert would want to hear: BatchNorm over (batch, time) makes position t depend on later positions and other sequences,
so the autoregressive model leaks and differs at step-by-step inference; use LayerNorm over channels.
Accept also: normalisation over the time axis is not causal; statistics mix time steps/sequences.
Does not count: "unstable".
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def waves(n, T, seed=0):
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(T + 1).float()
    f = 0.1 + 0.4 * torch.rand(n, 1, generator=g)
    ph = 6.28 * torch.rand(n, 1, generator=g)
    return torch.sin(f * t + ph) + 0.05 * torch.randn(n, T + 1, generator=g)


class CausalConv(nn.Module):
    def __init__(self, cin, cout, dil):
        super().__init__()
        self.pad = 2 * dil
        self.conv = nn.Conv1d(cin, cout, 3, dilation=dil)

    def forward(self, x):
        return self.conv(F.pad(x, (self.pad, 0)))


class InstanceScale(nn.Module):
    def forward(self, x):
        m = x.mean((0, 2), keepdim=True)
        s = x.std((0, 2), keepdim=True)
        return (x - m) / (s + 1e-5)


class WaveNet(nn.Module):
    def __init__(self, c=24):
        super().__init__()
        self.body = nn.Sequential(CausalConv(1, c, 1), InstanceScale(), nn.ReLU(), CausalConv(c, c, 2), InstanceScale(),
                                  nn.ReLU(), CausalConv(c, c, 4), InstanceScale(), nn.ReLU(), nn.Conv1d(c, 1, 1))

    def forward(self, x):
        return self.body(x[:, None]).squeeze(1)


def make():
    torch.manual_seed(0)
    w = waves(24, 40)
    x, y = w[:, :-1], w[:, 1:]
    batches = [(x[i:i + 2], y[i:i + 2]) for i in range(0, 24, 2)]
    model = WaveNet()
    return dict(model=model, batch=batches[0], loss=nn.MSELoss(), loader=batches,
                optimizer=torch.optim.Adam(model.parameters(), lr=2e-3))
