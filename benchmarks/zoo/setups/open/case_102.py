"""HEALTHY: Actor-critic on a contextual bandit with detached advantage and a value loss.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class ActorCritic(nn.Module):
    def __init__(self, s=5, a=3):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(s, 64), nn.Tanh())
        self.pi, self.v = nn.Linear(64, a), nn.Linear(64, 1)

    def forward(self, s):
        h = self.body(s)
        return torch.distributions.Categorical(logits=self.pi(h)), self.v(h).squeeze(1)


def reward(s, a):
    return s[torch.arange(len(s)), a]


def a2c_loss(model, batch):
    d, v = model(batch["s"])
    a = d.sample()
    r = reward(batch["s"], a)
    adv = (r - v).detach()
    return -(d.log_prob(a) * adv).mean() + 0.5 * F.mse_loss(v, r) - 0.01 * d.entropy().mean()


def mean_reward(model, batch):
    with torch.no_grad():
        return reward(batch["s"], model(batch["s"])[0].sample()).mean().item()


def make():
    torch.manual_seed(0)
    loader = [{"s": torch.randn(128, 5)} for _ in range(16)]
    model = ActorCritic()
    return dict(model=model, batch=loader[0], loss=a2c_loss, loader=loader, metric=mean_reward,
                optimizer=torch.optim.Adam(model.parameters(), lr=3e-3))
