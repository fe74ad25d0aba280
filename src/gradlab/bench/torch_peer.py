"""PyTorch: eager with fused and foreach optimizers, and torch.compile; data in memory, the same batches."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from time import perf_counter
from typing import Any

import numpy as np

from gradlab.trials.setup import Setup


def version() -> str | None:
    """Return the version; None if it is not installed."""
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(1)
    return str(torch.__version__)


def network(setup: Setup) -> Any:
    """Return the trial's network as a plain module with the same initial parameters."""
    import torch

    named = setup.mlp.layout.named(setup.theta)
    act = torch.tanh if setup.trial.config.model.activation.name == "tanh" else torch.relu
    stem, head, skip = setup.mlp.stem is not None, setup.mlp.head is not None, setup.mlp.skip.name

    class Net(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.ModuleList()
            for layer in setup.mlp.layers:
                linear = torch.nn.Linear(layer.fan_in, layer.fan_out)
                linear.weight.data = torch.tensor(named[f"layer{layer.number}.weight"].T.copy())
                linear.bias.data = torch.tensor(named[f"layer{layer.number}.bias"])
                self.layers.append(linear)

        def forward(self, x: Any) -> Any:
            layers = list(self.layers)
            x = act(layers.pop(0)(x)) if stem else x
            last = layers.pop() if head else None
            for layer in layers:
                z = layer(x)
                x = act(z) if skip == "none" else x + act(z) if skip == "identity" else act(z + x)
            return last(x) if last is not None else x

    return Net()


def variants(setup: Setup) -> dict[str, Callable[[], float]]:
    """Return functions that time one run, in seconds, by setting; compilation is not timed."""
    import torch

    x, y, batches = _data(setup)
    loss_of = torch.nn.functional.mse_loss if setup.loss.name == "mse" else torch.nn.functional.cross_entropy
    lr, adam = setup.trial.config.train.lr, setup.optimizer.name == "adam"
    full = setup.batch == len(x)  # nothing to gather

    def make_timer(compiled: bool, **options: bool) -> Callable[[], float]:
        net = network(setup)
        make = torch.optim.Adam if adam else torch.optim.SGD
        optimizer = make(net.parameters(), lr, **options)
        forward = torch.compile(net) if compiled else net

        def steps(chosen: list[Any]) -> None:
            for rows in chosen:
                inputs, targets = (x, y) if full else (x[rows], y[rows])
                optimizer.zero_grad(set_to_none=True)
                loss_of(forward(inputs), targets).backward()
                optimizer.step()

        steps(batches[:3])

        def run() -> float:
            start = perf_counter()
            steps(batches)
            return perf_counter() - start

        return run

    found = {"eager, fused": make_timer(False, fused=True), "eager, foreach": make_timer(False, foreach=True)}
    with suppress(Exception):  # for example, there is no C++ compiler
        found["compiled"] = make_timer(True, fused=True)
    return found


def _data(setup: Setup) -> tuple[Any, Any, list[Any]]:
    import torch

    x, y = (torch.tensor(a) for a in setup.dataset.gather(setup.dataset.train, np.float32))
    place = np.empty(len(setup.dataset.inputs), np.int64)
    place[setup.dataset.train] = np.arange(len(setup.dataset.train))
    return x, y, [torch.tensor(place[rows]) for _, rows in setup.batches()]


def tiny(setup: Setup, rates: np.ndarray) -> float:
    """Return the seconds to train one net per learning rate, in a loop."""
    import torch

    x, y, _ = _data(setup)
    start = perf_counter()
    for rate in rates:
        net = network(setup)
        optimizer = torch.optim.SGD(net.parameters(), float(rate))
        for _ in range(setup.steps):
            optimizer.zero_grad(set_to_none=True)
            torch.nn.functional.mse_loss(net(x), y).backward()
            optimizer.step()
    return perf_counter() - start


def sweep(setups: list[Setup]) -> None:
    """Train each network once, in eager mode."""
    for setup in setups:
        import torch

        x, y, batches = _data(setup)
        net = network(setup)
        optimizer = torch.optim.Adam(net.parameters(), setup.trial.config.train.lr, fused=True)
        for rows in batches:
            optimizer.zero_grad(set_to_none=True)
            torch.nn.functional.cross_entropy(net(x[rows]), y[rows]).backward()
            optimizer.step()
