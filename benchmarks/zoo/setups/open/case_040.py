"""HEALTHY: A graph network in which some nodes have no neighbours; self loops avoid division by zero.
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
        a = a + torch.eye(len(a))
        s = a.sum(1).rsqrt()
        a = s[:, None] * a * s[None]
        return a @ self.l2(F.relu(a @ self.l1(x)))


def make():
    torch.manual_seed(0)
    x, a, y = community_graph(220, 4)
    a[:15] = 0
    a[:, :15] = 0
    train = torch.rand(220) < 0.6

    def node_loss(model, batch):
        (x, a), y = batch
        return F.cross_entropy(model(x, a)[train], y[train])
    model = GCN(x.size(1), 4)
    return dict(model=model, batch=((x, a), y), loss=node_loss, optimizer=torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=5e-4))
