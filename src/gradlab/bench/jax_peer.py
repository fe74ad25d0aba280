"""JAX: one jit over a scan of all steps; vmap over learning rates for the tiny nets. Compilation is not timed."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

from gradlab.trials.setup import Setup


def version() -> str | None:
    """Return the version; None if it is not installed."""
    try:
        import jax
    except ImportError:
        return None
    return str(jax.__version__)


def _program(setup: Setup) -> tuple[Callable[..., Any], Any, Any]:
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

    place = np.empty(len(setup.dataset.inputs), np.int32)
    place[setup.dataset.train] = np.arange(len(setup.dataset.train))
    whole = [place[rows] for _, rows in setup.batches() if len(rows) == setup.batch]  # scan needs equal shapes
    return train, layers, jnp.asarray(np.stack(whole))


def variants(setup: Setup) -> dict[str, Callable[[], float]]:
    """Return functions that time one run, in seconds."""
    import jax

    train, p, batches = _program(setup)
    compiled, rate = jax.jit(train), setup.trial.config.train.lr
    compiled(p, rate, batches).block_until_ready()
    share = setup.steps / len(batches)

    def run() -> float:
        start = perf_counter()
        compiled(p, rate, batches).block_until_ready()
        return (perf_counter() - start) * share

    return {"jit + scan": run}


def tiny(setup: Setup, rates: np.ndarray) -> float:
    """Return the seconds to train one net per learning rate, all at once."""
    import jax

    train, p, batches = _program(setup)
    compiled = jax.jit(jax.vmap(train, in_axes=(None, 0, None)))
    values = np.asarray(rates, np.float32)
    compiled(p, values, batches).block_until_ready()
    start = perf_counter()
    compiled(p, values, batches).block_until_ready()
    return perf_counter() - start


def sweep(setups: list[Setup]) -> None:
    """Compile and train each network once."""
    import jax

    for setup in setups:
        train, p, batches = _program(setup)
        jax.jit(train)(p, setup.trial.config.train.lr, batches).block_until_ready()
