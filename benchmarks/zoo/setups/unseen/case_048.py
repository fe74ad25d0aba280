"""BROKEN: The message-passing layer is decorated with torch.no_grad, so layers below the head get no gradient.
An expert would want to hear: @torch.no_grad() on the layer's forward cuts the graph; only the head trains; remove it.
Accept also: parameters with no gradient because of no_grad.
Does not count: "GNN over-smooths".
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


class Conv(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.lin = nn.Linear(a, b)

    @torch.no_grad()
    def forward(self, x, adj):
        deg = adj.sum(1, keepdim=True).clamp(min=1)
        return F.relu(self.lin(torch.cat([x, adj @ x / deg], 1)))


class SAGE(nn.Module):
    def __init__(self, d, k, h=32):
        super().__init__()
        self.c1, self.c2 = Conv(2 * d, h), Conv(2 * h, h)
        self.head = nn.Linear(h, k)

    def forward(self, x, adj):
        return self.head(self.c2(self.c1(x, adj), adj))


def make():
    torch.manual_seed(0)
    x, a, y = community_graph(240, 5)
    model = SAGE(x.size(1), 5)
    return dict(model=model, batch=((x, a), y), loss=nn.CrossEntropyLoss(),
                optimizer=torch.optim.Adam(model.parameters(), lr=5e-3))
