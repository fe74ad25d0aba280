"""The fused engine: whole stretches of training in one compiled call. Numba, explicit SIMD, no interpreter, no GIL.

It agrees with the reference engine up to rounding. Everything it is handed (initial parameters, batch order, rates)
was decided before; what it adds is speed: products by register tiles that finish bias, skip, ReLU and mask on the way
out, padded widths, one pass per optimizer, buffers made once. See `kernels/`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from gradlab.engines.base import Engine, Tick, require_denormals
from gradlab.engines.fused import lanes
from gradlab.engines.fused.kernels.supported import LOSSES, OPTIMIZERS, unsupported
from gradlab.network.norms.base import Running
from gradlab.parts import Catalog
from gradlab.spec.config import Config
from gradlab.trials.inside import evaluation_is_due, evaluations, measure
from gradlab.trials.outcome import Outcome
from gradlab.trials.recorder import Recorder
from gradlab.trials.setup import EVALUATION_ROWS, Setup

if TYPE_CHECKING:
    from gradlab.engines.fused.kernels.layout import Memory

Array = NDArray[Any]
WIDEST_FOR_TILES = 192
"""Up to this width a layer's products go through register tiles, beyond it through BLAS, which packs its operands."""
LANES = 16
"""Tiny networks that are trained side by side."""
MOST_ROWS = 4_000_000
"""Rows of batch order handed over at once."""
LONGEST = 20_000
"""Steps of a stretch: a sign of life comes after each."""
MOST_WORK = 2e10
"""FLOPs of a stretch, a fraction of a second: the same sign of life for large networks."""


class Fused(Engine):
    """Numba kernels with explicit SIMD; every part in kernels/supported.py, float32 and float64."""

    name = "fused"
    numerics: ClassVar[int] = 1
    products: Literal["table", "tiles", "blas"] = "table"
    """Which products: by the fixed table of sizes (lanes, tiles or BLAS), or one kind for all layers."""

    def refusal(self, config: Config, catalog: Catalog) -> str | None:
        """Why this engine cannot train such a trial."""
        import importlib.util

        if importlib.util.find_spec("numba") is None:
            return "numba is not installed"
        parts = [
            config.model.activation,
            config.model.skip,
            config.model.norm,
            config.train.loss,
            config.train.optimizer,
        ]
        return next(filter(None, (unsupported(choice.part, choice.name, catalog) for choice in parts)), None)

    def numerics_of(self, config: Config, catalog: Catalog) -> str:
        """Lanes, tiles and BLAS round differently, so the path is part of the id."""
        if self._lanes(config, catalog):
            return f"{self.name}-{self.numerics}-lanes"
        return f"{self.name}-{self.numerics}-{'tiles' if self._tiles(config) else 'blas'}"

    def _lanes(self, config: Config, catalog: Catalog) -> bool:
        return self.products == "table" and lanes.fits(config, catalog)

    def side_by_side(self, config: Config, catalog: Catalog) -> int:
        """Tiny networks fill the lanes of the vectors."""
        return LANES if self._lanes(config, catalog) else 1

    def alike(self, a: Config, b: Config) -> bool:
        """Same shapes and kinds of parts."""
        return lanes.alike(a, b)

    def train_together(self, setups: Sequence[Setup], ticks: Sequence[Tick | None]) -> list[Outcome]:
        """Tiny networks in one call, others one by one."""
        first = setups[0].trial
        if not self._lanes(first.config, first.catalog):
            return super().train_together(setups, ticks)
        require_denormals()
        with np.errstate(all="ignore"):
            return lanes.train(setups, ticks)

    def _tiles(self, config: Config) -> bool:
        if self.products == "table":
            return config.model.width <= WIDEST_FOR_TILES
        return self.products == "tiles"

    def train(self, setup: Setup, tick: Tick | None = None) -> Outcome:
        """Stretches of compiled steps between evaluations and measures."""
        if self._lanes(setup.trial.config, setup.trial.catalog):
            return self.train_together([setup], [tick])[0]
        require_denormals()
        with np.errstate(all="ignore"):
            return _train(setup, self._tiles(setup.trial.config), tick)


def _train(setup: Setup, simd: bool, tick: Tick | None) -> Outcome:
    from gradlab.engines.fused.kernels.stretch import train

    record, state = Recorder(setup), _State(setup, simd)
    if 0 in setup.moments:
        measure(setup, record, 0, setup.theta, state.running(), None)
    record.snapshot(setup.theta, state.running())
    if setup.steps == 0:
        record.first_loss = state.first_loss()
    done = 0
    train(*state.arguments(0, 0), *_room(0))  # no step: compiles or loads the kernels before the clock runs
    for stop in _stops(setup):
        record.start_clock()
        count = stop - done
        losses, correct, sizes = _room(count)
        finished = train(*state.arguments(done, stop), losses, correct, sizes)
        seen = min(finished + 1, count)
        fine = record.stretch(losses[:seen].tolist(), correct[:seen].tolist(), sizes[:seen].tolist())
        record.stop_clock()
        if not fine:
            break
        done = stop
        if evaluation_is_due(setup, done):
            record.evaluated(evaluations(setup, state.answer, EVALUATION_ROWS))
        if done in setup.moments:
            theta = state.theta_now()
            measure(setup, record, done, theta, state.running(), theta - state.theta_before())
        if done in setup.snapshots:
            record.snapshot(state.theta_now(), state.running())
        if tick is not None:
            tick(done, record.latest_loss)
    return record.outcome(state.theta_now(), state.running())


def _room(count: int) -> tuple[Array, Array, Array]:
    """Room for the loss, the correct answers and the samples of so many steps."""
    return np.empty(count), np.empty(count, np.int64), np.empty(count, np.int64)


def _stops(setup: Setup) -> list[int]:
    """After which steps the interpreter has to look: evaluations, measures, and now and then a sign of life."""
    stops = {step for step in {*setup.moments, *setup.snapshots, setup.steps} if step > 0}
    per_epoch = setup.steps_per_epoch
    if len(setup.dataset.validation) + len(setup.dataset.test):
        every = per_epoch * setup.trial.config.measure.evaluate_every
        stops |= set(range(every, setup.steps + 1, every))
    epochs = max(1, MOST_ROWS // max(len(setup.dataset.train), 1))
    longest = min(LONGEST, max(1, int(MOST_WORK / setup.mlp.flops(setup.batch, backward=True))))
    if setup.batch < len(setup.dataset.train):
        longest = min(longest, epochs * per_epoch)
    stops |= set(range(longest, setup.steps + 1, longest))
    return sorted(stops)


@dataclass
class _Data:
    """The data set as the kernels read it: one of pixels and values, one of labels and targets is empty."""

    pixels: Array
    values: Array
    labels: Array
    targets: Array
    factor: Any
    offset: Any


def _data(setup: Setup) -> _Data:
    dtype, data = setup.dtype, setup.dataset
    raw = data.inputs.dtype == np.uint8
    scaled = np.empty(0, dtype) if raw else np.ascontiguousarray(data.scaled(data.inputs, dtype)).ravel()
    classes = data.classes is not None
    return _Data(
        pixels=data.inputs.ravel() if raw else np.empty(0, np.uint8),
        values=scaled,
        labels=data.targets.astype(np.int64) if classes else np.empty(0, np.int64),
        targets=np.empty((0, 1), dtype) if classes else np.ascontiguousarray(data.targets.astype(dtype)),
        factor=dtype.type(data.factor),
        offset=dtype.type(data.offset),
    )


class _State:
    """Every array of a trial in training, made once."""

    def __init__(self, setup: Setup, simd: bool) -> None:
        from gradlab.engines.fused.kernels.layout import lay_out
        from gradlab.engines.fused.kernels.product import address
        from gradlab.engines.fused.kernels.update import NUMBERS

        dtype = setup.dtype
        self.product = address(simd, dtype.name)
        rows = max(setup.batch, EVALUATION_ROWS if len(setup.dataset.validation) + len(setup.dataset.test) else 1)
        self.setup = setup
        self.memory: Memory = lay_out(setup.mlp, rows, simd)
        memory = self.memory
        self.theta = memory.padded(setup.theta)
        self.before = self.theta.copy()
        self.gradient, self.m, self.v = (np.zeros(memory.parameters, dtype) for _ in range(3))
        self.work = np.zeros(memory.workspace, dtype)
        self.inverse = np.zeros(max(memory.inverse, 1), dtype)
        self.mean, self.var = np.zeros(max(memory.running, 1), dtype), np.ones(max(memory.running, 1), dtype)
        self.transposes = np.zeros(memory.transposes, dtype)
        self.buffers = np.zeros((4, rows * memory.widest), dtype)
        self.ones, self.numbers = np.ones(1, dtype), np.zeros(NUMBERS, dtype)
        self.data = _data(setup)
        norm = setup.mlp.layers[0].norm
        self.epsilon, self.momentum = getattr(norm, "epsilon", 0.0), getattr(norm, "momentum", 0.0)
        self.slope = dtype.type(setup.trial.config.model.activation.parameters.get("negative_slope", 0))
        self.optimizer = setup.optimizer.parameters()

    def network(self) -> tuple[Any, ...]:
        """The arguments that say what the network is."""
        memory = self.memory
        return (
            memory.table, self.product, memory.simd, memory.fast, memory.place, memory.has_skip,
            memory.alpha, memory.alpha_at, self.slope, float(self.epsilon), float(self.momentum),
        )  # fmt: skip

    def arguments(self, done: int, stop: int) -> tuple[Any, ...]:
        """All arguments of the compiled loop for the steps from `done` to `stop`."""
        setup, data, o = self.setup, self.data, self.optimizer
        first_rate = o.get("beta1", o.get("momentum", o.get("alpha", 0.0)))
        return (
            *self.network(),
            data.pixels, data.values, data.factor, data.offset, data.labels, data.targets,
            self._order(done, stop), setup.batch, LOSSES[setup.loss.name].code,
            OPTIMIZERS[setup.optimizer.name].code, float(first_rate), float(o.get("beta2", 0.0)),
            float(o.get("epsilon", 0.0)), float(o.get("weight_decay", 0.0)),
            float(setup.trial.config.train.clip or 0.0), setup.rates[done:stop], done,
            self.theta, self.gradient, self.m, self.v, self.before, self.work, self.inverse, self.mean, self.var,
            self.transposes, self.buffers, self.ones, self.numbers,
        )  # fmt: skip

    def _order(self, done: int, stop: int) -> Array:
        setup = self.setup
        if setup.batch >= len(setup.dataset.train):
            return setup.dataset.train[None, :]
        first, last = done // setup.steps_per_epoch, max(stop - 1, 0) // setup.steps_per_epoch
        return np.stack([setup.order(epoch) for epoch in range(first, last + 1)])

    def theta_now(self) -> Array:
        """Parameters in the lab's layout."""
        return self.memory.plain(self.theta, self.setup.mlp.layout.size)

    def theta_before(self) -> Array:
        """Parameters before the latest step."""
        return self.memory.plain(self.before, self.setup.mlp.layout.size)

    def running(self) -> list[Running]:
        """The norms' running statistics."""
        from gradlab.engines.fused.kernels.layout import RUN, H

        found: list[Running] = []
        for layer, row in zip(self.setup.mlp.layers, self.memory.table, strict=True):
            window = slice(int(row[RUN]), int(row[RUN] + row[H]))
            found.append((self.mean[window].copy(), self.var[window].copy()) if layer.norm.has_memory else None)
        return found

    def answer(self, x: Array, training: bool = False) -> Array:
        """Outputs of a batch, in evaluation mode unless said otherwise."""
        from gradlab.engines.fused.kernels.forward import forward_fast, forward_general
        from gradlab.engines.fused.kernels.layout import HP, KP, STREAM, H, K

        memory, n = self.memory, len(x)
        first, last = memory.table[0], memory.table[-1]
        window = self.work[: n * int(first[KP])].reshape(n, int(first[KP]))
        window[:, : int(first[K])] = x
        if memory.fast:
            forward_fast(
                memory.table, self.product, memory.simd, memory.place, memory.has_skip, self.theta, self.work, n
            )
        else:
            table, at, simd, _, *rest = self.network()
            *rest, epsilon, momentum = rest
            forward_general(
                table, at, simd, *rest, self.theta, self.work, self.inverse, self.mean, self.var, epsilon, momentum,
                training, n,
            )  # fmt: skip
        start, stride = int(last[STREAM]), int(last[HP])
        return self.work[start : start + n * stride].reshape(n, stride)[:, : int(last[H])].copy()

    def first_loss(self) -> float:
        """Loss of the first batch, for a trial that only looks at the start."""
        setup = self.setup
        x, y = setup.dataset.gather(setup.order(0)[: setup.batch], setup.dtype)
        mean, var = self.mean.copy(), self.var.copy()
        loss = setup.loss.value(self.answer(x, training=True), y)
        self.mean, self.var = mean, var
        return loss
