"""Hand-written arms for the audit of factories: a small classifier in which anything can be changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

SAMPLES, FEATURES, WIDTH, CLASSES = 200, 6, 16, 4
CROSS_ENTROPY = nn.CrossEntropyLoss()


class Net(nn.Module):
    """Three hidden layers and a head; every step of the forward pass can be replaced."""

    def __init__(self, arm: Arms) -> None:
        super().__init__()
        self.arm = arm
        self.stem = nn.Linear(FEATURES, WIDTH)
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))
        self.norms = nn.ModuleList(arm.norm() for _ in range(2)) if arm.norm else None
        self.drop = arm.dropout() if arm.dropout else None
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.arm.before(x)
        x = self.arm.act(self.stem(x))
        for index, layer in enumerate(self.layers):
            y = layer(x) if self.arm.layers else x
            y = self.norms[index](y) if self.norms is not None else y
            y = self.arm.hidden(self.arm.act(y))
            y = self.drop(y) if self.drop is not None else y
            x = x + y if self.arm.skip else y
        return self.arm.after(self.head(x))


def same(x: Any) -> Any:
    return x


def nothing(*_: Any) -> None:
    return None


@dataclass(frozen=True)
class Arms:
    """A factory, by its parts."""

    skip: bool = False
    layers: bool = True
    act: Callable[[Tensor], Tensor] = torch.relu
    before: Callable[[Tensor], Tensor] = same
    hidden: Callable[[Tensor], Tensor] = same
    after: Callable[[Tensor], Tensor] = same
    norm: Callable[[], nn.Module] | None = None
    dropout: Callable[[], nn.Module] | None = None
    change: Callable[[Net], Any] = nothing
    """What is done to the model before the optimizer is made."""
    optimizer: Callable[[Net], Any] = lambda net: torch.optim.Adam(net.parameters(), lr=1e-3)
    then: Callable[[Any], Any] = nothing
    """What is done to the optimizer."""
    loss: Callable[[Tensor, Any], Tensor] = CROSS_ENTROPY
    data: Callable[[Tensor, Tensor], Any] = TensorDataset
    samples: int = SAMPLES
    loader: Callable[[Any], Any] = lambda data: DataLoader(data, 32, shuffle=True)
    labels: Callable[[Tensor], Tensor] = lambda x: x[:, :CLASSES].argmax(1)
    first: Callable[[], Any] = nothing
    last: Callable[[], Any] = nothing
    """What is called before the model is made, and after."""

    def __call__(self) -> Any:
        x = torch.randn(self.samples, FEATURES, generator=torch.Generator().manual_seed(1))
        self.first()
        net = Net(self)
        self.change(net)
        optimizer = self.optimizer(net)
        self.then(optimizer)
        self.last()
        return net, optimizer, self.loader(self.data(x, self.labels(x))), self.loss

    def but(self, **changes: Any) -> Arms:
        """The same arm with something changed."""
        return replace(self, **changes)


class Own(Dataset[Any]):
    """A data set of one's own class, with labels as plain numbers."""

    def __init__(self, x: Tensor, y: Tensor, change: Callable[[Tensor, int, int], Any] | None = None) -> None:
        self.x, self.y, self.change = x, y, change

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> Any:
        x, y = self.x[index], int(self.y[index])
        return (x, y) if self.change is None else self.change(x, y, index)
