"""HEALTHY: Mixed-precision training with bfloat16 autocast on the CPU.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def pictures(n, k, size=16, ch=1, noise=0.5, seed=0):
    g = torch.Generator().manual_seed(seed)
    proto = torch.randn(k, ch, size // 4, size // 4, generator=g)
    proto = F.interpolate(proto, size=(size, size), mode="bilinear", align_corners=False)
    y = torch.randint(0, k, (n,), generator=g)
    return proto[y] + noise * torch.randn(n, ch, size, size, generator=g), y


class Net(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(256, 128), nn.LayerNorm(128), nn.GELU(), nn.Linear(128, k))

    def forward(self, x):
        return self.net(x)


def make():
    torch.manual_seed(0)
    x, y = pictures(512, 6)
    model = Net(6)
    crit = nn.CrossEntropyLoss()

    def step(model, batch, optimizer):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = model(batch[0])
            loss = crit(out.float(), batch[1])
        loss.backward()
        optimizer.step()
        return loss.detach()
    return dict(model=model, batch=(x[:32], y[:32]), loss=crit, step=step, optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3),
                loader=DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True))
