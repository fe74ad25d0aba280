"""The systems that are timed: gradlab's engines and its peers, each at its best, on the same realized set-ups.

A peer's package is imported when it is used: it may be missing.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from itertools import repeat
from time import perf_counter
from typing import Any

import numpy as np

from gradlab.engines.fused import LANES, Fused
from gradlab.engines.reference import Reference
from gradlab.trials.setup import Setup

Timer = Callable[[], float]
"""Trains once; returns the seconds that it took."""


class System(ABC):
    """Something that trains networks. `tiny` and `sweep` are for those that can."""

    name: str
    """Also of its package."""

    def version(self) -> str | None:
        """Return the version; None if it is not installed."""
        try:
            return str(import_module(self.name).__version__)
        except ImportError:
            return None

    @abstractmethod
    def variants(self, setup: Setup) -> dict[str, Timer]:
        """Return functions that time one run, by setting; compilation is not timed."""

    def tiny(self, setup: Setup, rates: np.ndarray) -> float:
        """Return the seconds to train one net per learning rate."""
        raise NotImplementedError

    def sweep(self, setups: list[Setup]) -> None:
        """Train each network once."""
        raise NotImplementedError


def _timed(work: Callable[[], object]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start


def _batches(setup: Setup, dtype: Any) -> list[np.ndarray]:
    """The rows of every batch, counted among the training rows."""
    place = np.empty(len(setup.dataset.inputs), dtype)
    place[setup.dataset.train] = np.arange(len(setup.dataset.train))
    return [place[rows] for _, rows in setup.batches()]


class Gradlab(System):
    """Gradlab's engines, including bookkeeping."""

    name = "gradlab"

    def variants(self, setup: Setup) -> dict[str, Timer]:
        """By engine."""
        engines: dict[str, Fused | Reference] = {"fused": Fused()}
        if Fused().numerics_of(setup.trial.config, setup.trial.catalog).endswith("-sparse"):
            engines["fused, dense"] = Fused(products="tiles")
        engines |= {"fused, BLAS": Fused(products="blas"), "reference": Reference()}
        return {name: partial(_timed, partial(engine.train, setup)) for name, engine in engines.items()}

    def tiny(self, setup: Setup, rates: np.ndarray) -> float:
        """Side by side in the lanes of vectors."""
        engine = Fused()
        start = perf_counter()
        for first in range(0, len(rates), LANES):
            setups = [replace(setup, rates=np.full(setup.steps, rate)) for rate in rates[first : first + LANES]]
            engine.train_together(setups, [None] * len(setups))
        return perf_counter() - start


class Torch(System):
    """PyTorch: eager with fused and foreach optimizers, and torch.compile; data in memory, the same batches."""

    name = "torch"

    def variants(self, setup: Setup) -> dict[str, Timer]:
        """By optimizer, and compiled."""
        torch, (x, y, batches) = _import_torch(), _torch_data(setup)
        rule = torch.optim.Adam if setup.optimizer.name == "adam" else torch.optim.SGD
        full = setup.batch == len(x)  # nothing to gather

        def make_timer(compiled: bool, **options: bool) -> Timer:
            net = torch_network(setup)
            optimizer = rule(net.parameters(), setup.trial.config.train.lr, **options)
            forward = torch.compile(net) if compiled else net

            def steps(chosen: list[Any]) -> None:
                _torch_steps(setup, forward, optimizer, ((x, y) if full else (x[rows], y[rows]) for rows in chosen))

            steps(batches[:3])
            return partial(_timed, partial(steps, batches))

        timers = {"eager, fused": make_timer(False, fused=True), "eager, foreach": make_timer(False, foreach=True)}
        with suppress(Exception):  # for example, there is no C++ compiler
            timers["compiled"] = make_timer(True, fused=True)
        return timers

    def tiny(self, setup: Setup, rates: np.ndarray) -> float:
        """In a loop."""
        torch, (x, y, _) = _import_torch(), _torch_data(setup)
        start = perf_counter()
        for rate in rates:
            net = torch_network(setup)
            _torch_steps(setup, net, torch.optim.SGD(net.parameters(), float(rate)), repeat((x, y), setup.steps))
        return perf_counter() - start

    def sweep(self, setups: list[Setup]) -> None:
        """In eager mode."""
        torch = _import_torch()
        for setup in setups:
            x, y, batches = _torch_data(setup)
            net = torch_network(setup)
            optimizer = torch.optim.Adam(net.parameters(), setup.trial.config.train.lr, fused=True)
            _torch_steps(setup, net, optimizer, ((x[rows], y[rows]) for rows in batches))


def _torch_steps(setup: Setup, forward: Any, optimizer: Any, batches: Iterable[tuple[Any, Any]]) -> None:
    """Make one step per batch of inputs and targets."""
    from torch.nn.functional import cross_entropy, mse_loss

    loss_of = mse_loss if setup.loss.name == "mse" else cross_entropy
    for inputs, targets in batches:
        optimizer.zero_grad(set_to_none=True)
        loss_of(forward(inputs), targets).backward()
        optimizer.step()


def torch_network(setup: Setup) -> Any:
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


def _import_torch() -> Any:
    import torch

    torch.set_num_threads(1)
    return torch


def _torch_data(setup: Setup) -> tuple[Any, Any, list[Any]]:
    import torch

    x, y = (torch.tensor(a) for a in setup.dataset.gather(setup.dataset.train, np.float32))
    return x, y, [torch.tensor(rows) for rows in _batches(setup, np.int64)]


class Jax(System):
    """JAX: one jit over a scan of all steps; vmap over learning rates for the tiny nets. Compilation is not timed."""

    name = "jax"

    def variants(self, setup: Setup) -> dict[str, Timer]:
        """One."""
        import jax

        train, p, batches = _jax_program(setup)
        compiled, rate = jax.jit(train), setup.trial.config.train.lr
        compiled(p, rate, batches).block_until_ready()
        share = setup.steps / len(batches)

        return {"jit + scan": lambda: share * _timed(lambda: compiled(p, rate, batches).block_until_ready())}

    def tiny(self, setup: Setup, rates: np.ndarray) -> float:
        """All at once."""
        import jax

        train, p, batches = _jax_program(setup)
        compiled = jax.jit(jax.vmap(train, in_axes=(None, 0, None)))
        values = np.asarray(rates, np.float32)
        compiled(p, values, batches).block_until_ready()
        return _timed(lambda: compiled(p, values, batches).block_until_ready())

    def sweep(self, setups: list[Setup]) -> None:
        """Each is compiled first, which is timed."""
        import jax

        for setup in setups:
            train, p, batches = _jax_program(setup)
            jax.jit(train)(p, setup.trial.config.train.lr, batches).block_until_ready()


def _jax_program(setup: Setup) -> tuple[Callable[..., Any], Any, Any]:
    """Return (train(parameters, rate, batches) -> last loss, initial parameters, batches)."""
    import jax
    import jax.numpy as jnp

    named = setup.mlp.layout.named(setup.theta)
    layers = [
        (jnp.asarray(named[f"layer{i + 1}.weight"]), jnp.asarray(named[f"layer{i + 1}.bias"]))
        for i in range(len(setup.mlp.layers))
    ]
    x, y = setup.dataset.gather(setup.dataset.train, np.float32)
    xs, ys = jnp.asarray(x), jnp.asarray(y)
    act = jnp.tanh if setup.trial.config.model.activation.name == "tanh" else jax.nn.relu
    stem, head, skip = setup.mlp.stem is not None, setup.mlp.head is not None, setup.mlp.skip.name
    classes, adam = setup.dataset.classes is not None, setup.optimizer.name == "adam"
    full = setup.batch == len(x)  # nothing to gather

    def forward(p: Any, h: Any) -> Any:
        p = list(p)
        if stem:
            w, b = p.pop(0)
            h = act(h @ w + b)
        last = p.pop() if head else None
        for w, b in p:
            z = h @ w + b
            h = act(z) if skip == "none" else h + act(z) if skip == "identity" else act(z + h)
        return h @ last[0] + last[1] if last is not None else h

    def loss(p: Any, rows: Any) -> Any:
        o, t = (forward(p, xs), ys) if full else (forward(p, xs[rows]), ys[rows])
        if classes:
            return -jnp.take_along_axis(jax.nn.log_softmax(o), t[:, None], 1).mean()
        return ((o - t) ** 2).mean()

    def step(state: Any, rows: Any) -> Any:
        p, m, v, t, rate = state
        value, g = jax.value_and_grad(loss)(p, rows)
        t = t + 1
        if adam:
            m = jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, m, g)
            v = jax.tree.map(lambda a, b: 0.999 * a + 0.001 * b * b, v, g)
            c, d = rate / (1 - 0.9**t), 1 / jnp.sqrt(1 - 0.999**t)
            p = jax.tree.map(lambda a, b, e: a - c * b / (jnp.sqrt(e) * d + 1e-8), p, m, v)
        else:
            p = jax.tree.map(lambda a, b: a - rate * b, p, g)
        return (p, m, v, t, rate), value

    def train(p: Any, rate: Any, batches: Any) -> Any:
        zero = jax.tree.map(jnp.zeros_like, p)
        _, losses = jax.lax.scan(step, (p, zero, zero, 0.0, rate), batches)
        return losses[-1]

    whole = [rows for rows in _batches(setup, np.int32) if len(rows) == setup.batch]  # scan needs equal shapes
    return train, layers, jnp.asarray(np.stack(whole))


class Sklearn(System):
    """scikit-learn's MLPClassifier, for the networks that it can express: plain ReLU classifiers."""

    name = "sklearn"

    def variants(self, setup: Setup) -> dict[str, Timer]:
        """One, scaled to the trial's number of steps, as it trains whole epochs only."""
        if setup.dataset.classes is None or setup.mlp.skip.name != "none":
            return {}
        from sklearn.neural_network import MLPClassifier

        rows = setup.dataset.train[: setup.batch * max(min(setup.steps, setup.steps_per_epoch - 1), 1)]
        x, y = setup.dataset.gather(rows, np.float32)
        model = setup.trial.config.model
        solver = "adam" if setup.optimizer.name == "adam" else "sgd"

        def run() -> float:
            net = MLPClassifier(
                (model.width,) * model.depth, solver=solver, alpha=0.0, batch_size=setup.batch, max_iter=1,
                momentum=0.0, learning_rate_init=setup.trial.config.train.lr, nesterovs_momentum=False,
            )  # fmt: skip
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # it warns that one epoch is not enough
                return _timed(lambda: net.fit(x, y)) * setup.steps * setup.batch / len(rows)

        return {"MLPClassifier": run}


GRADLAB = Gradlab()
PEERS: dict[str, System] = {system.name: system for system in (Torch(), Jax(), Sklearn())}
