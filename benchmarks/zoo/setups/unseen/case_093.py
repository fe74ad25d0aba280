"""BROKEN: Dropout of 0.9 on hidden node features (the keep probability was meant).
An expert would want to hear: 90 percent of units are dropped; far too much; probably p and 1-p confused; use 0.1.
Accept also: dropout rate extreme.
Does not count: "noisy loss".
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
    def __init__(self, d, k, h=32, keep=0.9):
        super().__init__()
        self.l1, self.l2, self.l3 = nn.Linear(d, h), nn.Linear(h, h), nn.Linear(h, k)
        self.drop = nn.Dropout(keep)

    def forward(self, x, a):
        a = (a + torch.eye(len(a))) / (a.sum(1, keepdim=True) + 1)
        h = self.drop(F.relu(a @ self.l1(x)))
        h = self.drop(F.relu(a @ self.l2(h)))
        return self.l3(h)


def make():
    torch.manual_seed(0)
    x, a, y = community_graph(200, 4)
    model = GCN(x.size(1), 4)
    return dict(model=model, batch=((x, a), y), loss=nn.CrossEntropyLoss(),
                optimizer=torch.optim.Adam(model.parameters(), lr=5e-3))
