"""BROKEN: The learning rate is 1e-9, so nothing changes in any realistic time.
An expert would want to hear: lr is a million times too small; use about 1e-2..1e-3.
Accept also: updates negligible against weights.
Does not count: "loss flat".
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def community_graph(n, k, p_in=0.15, p_out=0.01, seed=0):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, k, (n,), generator=g)
    p = torch.where(y[:, None] == y[None], p_in, p_out)
    a = (torch.rand(n, n, generator=g) < p).float().triu(1)
    a = a + a.T
    x = F.one_hot(y, k).float() + 1.5 * torch.randn(n, k, generator=g)
    return torch.cat([x, torch.randn(n, 8, generator=g)], 1), a, y


class GCN(nn.Module):
    def __init__(self, d, k, h=32):
        super().__init__()
        self.l1, self.l2 = nn.Linear(d, h), nn.Linear(h, k)

    def forward(self, x, a):
        a = (a + torch.eye(len(a))) / (a.sum(1, keepdim=True) + 1)
        return a @ self.l2(F.relu(a @ self.l1(x)))


def make():
    torch.manual_seed(0)
    x, a, y = community_graph(200, 4)
    model = GCN(x.size(1), 4)
    return dict(model=model, batch=((x, a), y), loss=nn.CrossEntropyLoss(), optimizer=torch.optim.Adam(model.parameters(), lr=1e-9))
