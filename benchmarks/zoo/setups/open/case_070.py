"""BROKEN: The optimizer is built on the target network's parameters in place of the online network's.
An expert would want to hear: step() updates a network that gets no gradient; the online net never changes.
Accept also: optimizer holds parameters of another model; model parameters not in optimizer.
Does not count: "Q does not converge".
"""
import copy
import torch
import torch.nn as nn
import torch.nn.functional as F


class QNet(nn.Module):
    def __init__(self, s=4, a=3):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(s, 64), nn.ReLU(), nn.Linear(64, a))

    def forward(self, s):
        return self.net(s)


def make():
    torch.manual_seed(0)
    online = QNet()
    target = copy.deepcopy(online)
    optimizer = torch.optim.Adam(target.parameters(), lr=1e-3)
    s, a = torch.randn(512, 4), torch.randint(0, 3, (512,))
    r = s[torch.arange(512), a]
    s2 = s + 0.1 * torch.randn(512, 4)
    batches = [{"s": s[i:i + 64], "a": a[i:i + 64], "r": r[i:i + 64], "s2": s2[i:i + 64]} for i in range(0, 512, 64)]

    def td(model, batch):
        q = model(batch["s"]).gather(1, batch["a"][:, None]).squeeze(1)
        with torch.no_grad():
            y = batch["r"] + 0.9 * target(batch["s2"]).max(1).values
        return F.mse_loss(q, y)
    return dict(model=online, batch=batches[0], loss=td, optimizer=optimizer, loader=batches)
