"""Networks and tasks that several faults of the zoo share."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from training import ENTROPY, batches_of, features, perceptron, words


def task() -> Callable[[int], tuple[Tensor, Tensor]]:
    """Return the batches of the common task."""
    return batches_of(*features())


class LastState(nn.Module):
    """A recurrent network read out at its last step."""

    def __init__(self, cells: nn.Module) -> None:
        super().__init__()
        self.cells, self.head = cells, nn.Linear(32, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.cells(x)[0][:, -1])


def sequences(length: int) -> Callable[[int], tuple[Tensor, Tensor]]:
    """Return noise with the label in its first entries."""
    x, y = features(256, 8)
    noise = torch.randn(256, length, 8, generator=torch.Generator().manual_seed(4))
    noise[:, 0] = x
    return batches_of(noise, y)


class Attending(nn.Module):
    """One attention block on words, written by hand."""

    def __init__(self, width: int = 256, scale: float | None = None, spread: float = 1.0) -> None:
        super().__init__()
        self.embedding = nn.Embedding(64, width)
        self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))
        for layer in (self.query, self.key):
            nn.init.normal_(layer.weight, std=spread * width**-0.5)
        self.head, self.scale = nn.Linear(width, 64), width**-0.5 if scale is None else scale

    def forward(self, x: Tensor) -> Tensor:
        x = self.embedding(x)
        weights = torch.softmax(self.query(x) @ self.key(x).transpose(-1, -2) * self.scale, -1)
        return self.head(x + weights @ self.value(x))


def next_words(out: Tensor, tokens: Tensor) -> Tensor:
    """Return the loss of the next token."""
    return ENTROPY(out[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


class PlainConvolutions(nn.Module):
    """Convolutions without norm or skip."""

    def __init__(self, depth: int = 24) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1)
        self.layers = nn.ModuleList(nn.Conv2d(16, 16, 3, padding=1) for _ in range(depth))
        self.head = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.head(x.mean((2, 3)))


class Encoder(nn.Module):
    """A transformer on words, from PyTorch's layers."""

    def __init__(self, layers: int = 4, post: bool = False, width: int = 32) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True, norm_first=not post)
        self.embedding = nn.Embedding(64, width)
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(self.embedding(x)).mean(1))


def sentences() -> Callable[[int], tuple[Tensor, Tensor]]:
    """Return words and their stride as the label."""
    tokens = words(256)
    return batches_of(tokens, (tokens[:, 1] - tokens[:, 0] - 1) % 64)


class Mixture(nn.Module):
    """Experts between a router and a head; each sample goes to `top` of them."""

    def __init__(self, experts: int, top: int = 1) -> None:
        super().__init__()
        self.router, self.top = nn.Linear(32, experts), top
        self.experts = nn.ModuleList(perceptron(1, out=32) for _ in range(experts))
        self.head = nn.Linear(32, 4)

    def forward(self, x: Tensor) -> Tensor:
        weights, chosen = torch.softmax(self.router(x), -1).topk(self.top)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows, slots = (chosen == number).nonzero(as_tuple=True)
            if len(rows):
                out = out.index_add(0, rows, expert(x[rows]) * weights[rows, slots, None])
        return self.head(x + out)
