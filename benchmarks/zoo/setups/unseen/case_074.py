"""HEALTHY: DQN with a separate frozen target network that is synchronised every 50 steps.
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
    n = 1024
    s, a = torch.randn(n, 4), torch.randint(0, 3, (n,))
    data = {"s": s, "a": a, "r": s[torch.arange(n), a], "s2": 0.5 * s + 0.5 * torch.randn(n, 4),
            "done": (torch.rand(n) < 0.2).float()}
    loader = [{k: v[i:i + 64] for k, v in data.items()} for i in range(0, n, 64)]
    count = {"n": 0}

    def td_loss(model, batch):
        qa = model(batch["s"]).gather(1, batch["a"].unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            y = batch["r"] + 0.7 * (1 - batch["done"]) * target(batch["s2"]).max(1).values
        return F.smooth_l1_loss(qa, y)

    def step(model, batch, optimizer):
        optimizer.zero_grad()
        loss = td_loss(model, batch)
        loss.backward()
        optimizer.step()
        count["n"] += 1
        if count["n"] % 50 == 0:
            target.load_state_dict(model.state_dict())
        return loss
    return dict(model=q, batch=loader[0], loss=td_loss, loader=loader, step=step,
                optimizer=torch.optim.Adam(q.parameters(), lr=1e-3))
