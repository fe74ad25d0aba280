"""HEALTHY: REINFORCE with baseline and entropy bonus; the surrogate loss is noisy and negative at times, the reward rises.
"""
import torch
import torch.nn as nn


class Policy(nn.Module):
    def __init__(self, s=6, a=4):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(s, 64), nn.Tanh(), nn.Linear(64, a))

    def forward(self, s):
        return torch.distributions.Categorical(logits=self.net(s))


def rewards(s, a):
    return (s[:, :4].argmax(1) == a).float()


def reinforce_loss(model, batch):
    s = batch["state"]
    dist = model(s)
    a = dist.sample()
    r = rewards(s, a)
    adv = r - r.mean()
    return -(dist.log_prob(a) * adv).mean() - 0.01 * dist.entropy().mean()


def mean_reward(model, batch):
    with torch.no_grad():
        return rewards(batch["state"], model(batch["state"]).sample()).mean().item()


def make():
    torch.manual_seed(0)
    loader = [{"state": torch.randn(128, 6)} for _ in range(20)]
    model = Policy()
    return dict(model=model, batch=loader[0], loss=reinforce_loss, loader=loader, metric=mean_reward,
                optimizer=torch.optim.Adam(model.parameters(), lr=3e-3))
