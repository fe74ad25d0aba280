"""HEALTHY: A student is trained on softened outputs of a frozen, trained teacher held outside the optimizer.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def blobs(n, d, k, spread=1.0, seed=0):
    g = torch.Generator().manual_seed(seed)
    centers = torch.randn(k, d, generator=g)
    y = torch.randint(0, k, (n,), generator=g)
    return centers[y] + spread * torch.randn(n, d, generator=g), y


class MLP(nn.Module):
    def __init__(self, d, out, h=64):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, out))

    def forward(self, x):
        return self.net(x)


class Distill(nn.Module):
    def __init__(self, teacher, student):
        super().__init__()
        self.teacher, self.student = teacher.eval().requires_grad_(False), student

    def forward(self, x):
        return self.student(x)


def kd_loss(model, batch):
    x, y = batch
    s = model(x)
    with torch.no_grad():
        t = model.teacher(x)
    soft = F.kl_div(F.log_softmax(s / 2, 1), F.softmax(t / 2, 1), reduction="batchmean") * 4
    return 0.5 * soft + 0.5 * F.cross_entropy(s, y)


def make():
    torch.manual_seed(0)
    x, y = blobs(800, 12, 5, spread=1.3)
    teacher = MLP(12, 5, h=128)
    opt = torch.optim.Adam(teacher.parameters(), lr=3e-3)
    for _ in range(60):
        opt.zero_grad()
        F.cross_entropy(teacher(x), y).backward()
        opt.step()
    model = Distill(teacher, MLP(12, 5, h=24))
    return dict(model=model, batch=(x[:50], y[:50]), loss=kd_loss, optimizer=torch.optim.Adam(model.student.parameters(), lr=3e-3),
                loader=DataLoader(TensorDataset(x, y), batch_size=50, shuffle=True))
