"""Healthy and broken networks on which the diagnosis is calibrated."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn


def mlp(
    depth: int,
    width: int = 32,
    act: Callable[[], nn.Module] = nn.ReLU,
    *,
    he: bool = False,
    scale: float = 1.0,
    norm: bool = False,
) -> nn.Sequential:
    layers: list[nn.Module] = []
    for _ in range(depth):
        linear = nn.Linear(width, width)
        if he:
            nn.init.kaiming_normal_(linear.weight, nonlinearity="relu")
            nn.init.zeros_(linear.bias)
        with torch.no_grad():
            linear.weight *= scale
        layers += [linear, *([nn.LayerNorm(width)] if norm else []), act()]
    return nn.Sequential(*layers, nn.Linear(width, 4))


class Residual(nn.Module):
    def __init__(self, depth: int, scale: float, width: int = 32) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.head = nn.Linear(width, 4)
        for layer in self.layers:
            nn.init.kaiming_normal_(layer.weight)
            nn.init.zeros_(layer.bias)
            with torch.no_grad():
                layer.weight *= scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + torch.relu(layer(x))
        return self.head(x)


class Cnn(nn.Module):
    def __init__(self, norm: bool = True, channels: int = 8) -> None:
        super().__init__()
        blocks: list[nn.Module] = []
        for index in range(4):
            blocks += [nn.Conv2d(1 if index == 0 else channels, channels, 3, padding=1)]
            blocks += [nn.BatchNorm2d(channels)] if norm else []
            blocks += [nn.ReLU()]
        self.body, self.head = nn.Sequential(*blocks), nn.Linear(channels, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x.reshape(-1, 1, 4, 8)).mean((2, 3)))


class Transformer(nn.Module):
    def __init__(self, layers: int = 4, width: int = 32, post: bool = False) -> None:
        super().__init__()
        one = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.1, batch_first=True, norm_first=not post)
        self.body = nn.TransformerEncoder(one, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x.reshape(-1, 4, 8).repeat(1, 1, 4)).mean(1))


class Detached(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(32, 32), nn.Linear(32, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)).detach())


class LogOfZero(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.act, self.log, self.head = nn.Linear(32, 32), nn.ReLU(), Log(), nn.Linear(32, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.log(self.act(self.first(x))))


class ReZero(nn.Module):
    """Branches that start at 0: at first nothing inside them gets a gradient, which is healthy."""

    def __init__(self, depth: int = 12) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(depth))
        self.weights = nn.ParameterList(nn.Parameter(torch.zeros(1)) for _ in range(depth))
        self.head = nn.Linear(32, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer, weight in zip(self.layers, self.weights, strict=True):
            x = x + weight * torch.relu(layer(x))
        return self.head(x)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells, self.head = nn.LSTM(8, 32, num_layers=2, batch_first=True), nn.Linear(32, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.cells(x.reshape(-1, 4, 8))[0][:, -1])


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.body = nn.Embedding(50, 32), mlp(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(self.embedding((x.abs() * 10).long().clamp(max=49)).mean(1))


def bottleneck() -> nn.Sequential:
    return nn.Sequential(nn.Linear(32, 8), nn.ReLU(), nn.Linear(8, 2), nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 4))


class Log(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.log(x) - torch.log(x)


def dying(model: nn.Sequential) -> nn.Sequential:
    for module in model:
        if isinstance(module, nn.Linear):
            nn.init.constant_(module.bias, -50.0)
    return model


def frozen(model: nn.Sequential) -> nn.Sequential:
    model[0].requires_grad_(False)
    return model


HEALTHY: dict[str, Callable[[], nn.Module]] = {
    "a shallow MLP": lambda: mlp(2),
    "a 5-layer MLP at default init": lambda: mlp(5),
    "a deep MLP at He init": lambda: mlp(20, he=True),
    "a deep MLP with layer norm": lambda: mlp(20, norm=True),
    "a tanh MLP": lambda: mlp(4, act=nn.Tanh),
    "a GELU MLP": lambda: mlp(6, act=nn.GELU, he=True),
    "a sigmoid MLP with norm": lambda: mlp(4, act=nn.Sigmoid, norm=True),
    "a residual net at scale 1/sqrt(20)": lambda: Residual(20, 20**-0.5),
    "a deep residual net": lambda: Residual(50, 50**-0.5 / 2),
    "a CNN with batch norm": lambda: Cnn(),
    "a CNN without": lambda: Cnn(norm=False),
    "a pre-norm transformer": lambda: Transformer(),
    "a post-norm transformer": lambda: Transformer(post=True),
    "a wide MLP": lambda: mlp(3, width=32, act=nn.SiLU),
    "branches that begin at 0": lambda: ReZero(),
    "an LSTM": lambda: Recurrent(),
    "an embedding": lambda: Words(),
    "a bottleneck": bottleneck,
}
BROKEN: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "the plain net of the identity write-up": (lambda: mlp(20, he=True, scale=20**-0.5), "vanishing gradients"),
    "a 30-layer net at default init": (lambda: mlp(30), "vanishing gradients"),
    "a sigmoid MLP of 12 layers": (lambda: mlp(12, act=nn.Sigmoid), "vanishing gradients"),
    "a plain net with large weights": (lambda: mlp(20, he=True, scale=2.5), "exploding gradients"),
    "an unscaled residual net": (lambda: Residual(40, 1.0), "exploding gradients"),
    "a deep residual net with large branches": (lambda: Residual(20, 2.0), "exploding activations"),
    "dead ReLUs": (lambda: dying(mlp(3)), "dead units"),
    "one dead layer": (lambda: dying(mlp(1)), "dead units"),
    "a saturated tanh net": (lambda: mlp(3, act=nn.Tanh, scale=60.0), "saturated units"),
    "a saturated sigmoid": (lambda: mlp(2, act=nn.Sigmoid, scale=200.0), "saturated units"),
    "a detach on the way": (lambda: Detached(), "no gradient"),
    "a frozen layer": (lambda: frozen(mlp(3)), "frozen"),
    "a logarithm of zero": (lambda: LogOfZero(), "NaN or infinity"),
    "weights that overflowed": (lambda: mlp(4, scale=1e30), "NaN or infinity"),
}


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    """64 random samples with unrelated labels of 4 classes."""
    torch.manual_seed(1)
    return torch.randn(64, 32), torch.randint(0, 4, (64,))
