"""HEALTHY: Full-batch LBFGS on a small regression net, with closure in its own step.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def table(n, d, noise=0.1, seed=0):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, d, generator=g)
    w = torch.randn(d, generator=g) / d ** 0.5
    y = x @ w + 0.5 * torch.sin(2 * x[:, 0]) + noise * torch.randn(n, generator=g)
    return x, y


def make():
    torch.manual_seed(0)
    x, y = table(200, 3, noise=0.02)
    y = y[:, None]
    model = nn.Sequential(nn.Linear(3, 20), nn.Tanh(), nn.Linear(20, 1))
    opt = torch.optim.LBFGS(model.parameters(), lr=1.0, max_iter=5, history_size=10, line_search_fn="strong_wolfe")

    def step(model, batch, optimizer):
        def closure():
            optimizer.zero_grad()
            loss = F.mse_loss(model(batch[0]), batch[1])
            loss.backward()
            return loss
        return optimizer.step(closure)
    return dict(model=model, batch=(x, y), loss=nn.MSELoss(), optimizer=opt, step=step)
