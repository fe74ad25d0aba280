"""BROKEN: The actor's softmax runs over the batch axis, so action probabilities of a state do not sum to one.
An expert would want to hear: Softmax(dim=0) normalises over states in the batch; samples interact; use dim=-1.
Accept also: wrong softmax dimension; output of one state depends on the others.
Does not count: "policy does not learn".
"""
import torch
import torch.nn as nn


class Actor(nn.Module):
    def __init__(self, s=5, a=3):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(s, 32), nn.Tanh(), nn.Linear(32, a), nn.Softmax(dim=0))

    def forward(self, s):
        return self.body(s)


def bc_loss(model, batch):
    s, a, adv = batch["s"], batch["a"], batch["adv"]
    p = model(s).gather(1, a[:, None]).squeeze(1)
    return -(torch.log(p + 1e-8) * adv).mean()


def make():
    torch.manual_seed(0)
    s = torch.randn(640, 5)
    a = torch.randint(0, 3, (640,))
    adv = (s[:, :3].argmax(1) == a).float() * 1.5 - 0.5
    data = {"s": s, "a": a, "adv": adv}
    loader = [{k: v[i:i + 64] for k, v in data.items()} for i in range(0, 640, 64)]
    model = Actor()
    return dict(model=model, batch=loader[0], loss=bc_loss, loader=loader,
                optimizer=torch.optim.Adam(model.parameters(), lr=1e-3))
