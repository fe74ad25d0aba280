"""BROKEN: In the Q-learning loss the gathered q of shape (B,1) meets targets of shape (B,).
An expert would want to hear: q keeps the gather dimension so the TD error becomes (B,B) by broadcasting; squeeze(1) after
gather.
Accept also: shapes (B,1) and (B,) broadcast; wrong pairing.
Does not count: "Q-values converge to the mean".
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class QNet(nn.Module):
    def __init__(self, s=4, a=3):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(s, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, a))

    def forward(self, s):
        return self.net(s)


def make():
    torch.manual_seed(0)
    q, target = QNet(), QNet()
    target.load_state_dict(q.state_dict())
    n = 512
    s, a = torch.randn(n, 4), torch.randint(0, 3, (n,))
    r = torch.where(a == 0, s[:, 0], torch.where(a == 1, s[:, 1], s[:, 2]))
    data = {"s": s, "a": a, "r": r, "s2": s + 0.1 * torch.randn(n, 4), "done": (torch.rand(n) < 0.2).float()}
    batches = [{k: v[i:i + 64] for k, v in data.items()} for i in range(0, n, 64)]

    def td_loss(model, batch):
        q_sa = model(batch["s"]).gather(1, batch["a"].unsqueeze(1))
        with torch.no_grad():
            nxt = target(batch["s2"]).max(1).values
            y = batch["r"] + 0.9 * (1 - batch["done"]) * nxt
        return F.smooth_l1_loss(q_sa, y)
    return dict(model=q, batch=batches[0], loss=td_loss, optimizer=torch.optim.Adam(q.parameters(), lr=1e-3), loader=batches)
