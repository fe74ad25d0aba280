"""Tiny networks of one shape, trained side by side: the fused engine's way with them (kernels/lanes.py).

Which trials go this way is decided by their own configuration (`fits`), never by their neighbors; a network alone
leaves fifteen lanes unused and is no slower for it. Networks are `alike` if one call can train them: same shapes,
samples, steps and kinds of parts; data, initial parameters, learning rates and the numbers of the optimizer are their
own.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.data.base import Task
from gradlab.engines.base import Tick
from gradlab.engines.fused.kernels.supported import ACTIVATIONS, LOSSES, OPTIMIZERS
from gradlab.network.norms.base import Running
from gradlab.parts import Catalog
from gradlab.spec.config import Config
from gradlab.trials.inside import evaluation_is_due, evaluations, measure
from gradlab.trials.outcome import Outcome
from gradlab.trials.recorder import Recorder
from gradlab.trials.setup import EVALUATION_ROWS, Setup

Array = NDArray[Any]
WIDEST, DEEPEST, MOST_NUMBERS = 32, 4, 8192
"""Largest width, most hidden layers, most numbers of one network's activations: sixteen of them stay in the cache."""
_OWN = ("lr", "clip", "engine", "schedule", "warmup", "optimizer")
"""Settings of training in which networks that are trained together may differ."""


def fits(config: Config, catalog: Catalog) -> bool:
    """Whether such a trial is trained in a lane: tiny, full batch, no norm, no skip."""
    model, train = config.model, config.train
    if train.batch != "full" or model.width > WIDEST or model.depth > DEEPEST or train.steps == 0:
        return False
    if model.norm.name != "none" or (model.skip.name != "none" and model.depth > (model.stem == "linear")):
        return False
    task: Task = config.data.build(catalog)
    facts = task.facts()
    return facts.samples * (facts.input_width + facts.output_width + model.depth * model.width) <= MOST_NUMBERS


def alike(a: Config, b: Config) -> bool:
    """Whether two such trials can be trained in one call."""
    if a.data != b.data or a.measure != b.measure or a.train.optimizer.name != b.train.optimizer.name:
        return False
    models = all(
        getattr(a.model, name) == getattr(b.model, name) for name in type(a.model).model_fields if name != "init"
    )
    return models and all(
        getattr(a.train, name) == getattr(b.train, name) for name in type(a.train).model_fields if name not in _OWN
    )


def train(setups: Sequence[Setup], ticks: Sequence[Tick | None]) -> list[Outcome]:
    """Train up to sixteen trials that are alike."""
    state = _Lanes(setups)
    records = [Recorder(setup) for setup in setups]
    first = setups[0]
    for setup, record in zip(setups, records, strict=True):
        if 0 in setup.moments:
            measure(setup, record, 0, setup.theta, state.no_memory, None)
        record.snapshot(setup.theta, ())
    done = 0
    state.steps(0, 0)  # compiles or loads the kernels before the clock runs
    for stop in _stops(first):
        start = perf_counter()
        losses, correct = state.steps(done, stop)
        seconds = (perf_counter() - start) / len(setups)
        for lane, record in enumerate(records):
            if record.diverged_step is None:
                seen = stop - done if state.alive[lane] < 0 else int(state.alive[lane]) + 1 - done
                numbers = losses[:seen, lane].tolist(), correct[:seen, lane].tolist(), [state.n] * seen
                fine = record.stretch(*numbers)
                record.took(seconds)
                if fine:
                    _look(state, record, lane, stop, ticks[lane])
        done = stop
    return [record.outcome(state.theta_of(lane), ()) for lane, record in enumerate(records)]


def _look(state: _Lanes, record: Recorder, lane: int, step: int, tick: Tick | None) -> None:
    """Evaluate, measure and keep one network after a step, where that is due."""
    setup = record.setup
    evaluated = evaluation_is_due(setup, step)
    if evaluated or step in setup.moments or step in setup.snapshots:
        theta = state.theta_of(lane)
        if evaluated:
            p = setup.mlp.layout.windows(theta)
            answer = lambda x: setup.mlp.forward(p, x, state.no_memory, training=False)[0]  # noqa: E731
            record.evaluated(evaluations(setup, answer, EVALUATION_ROWS))
        if step in setup.moments:
            measure(setup, record, step, theta, state.no_memory, theta - state.before_of(lane))
        record.snapshot(theta, ())
    if tick is not None:
        tick(step, record.latest_loss)


def _stops(setup: Setup) -> list[int]:
    """After which steps the interpreter has to look."""
    stops = {step for step in {*setup.moments, *setup.snapshots, setup.steps} if step > 0}
    if len(setup.dataset.validation) + len(setup.dataset.test):
        every = setup.trial.config.measure.evaluate_every
        stops |= set(range(every, setup.steps + 1, every))
    return sorted(stops | set(range(20_000, setup.steps + 1, 20_000)))


class _Lanes:
    """Every array of a group of networks in training; the last axis runs over the networks."""

    def __init__(self, setups: Sequence[Setup]) -> None:
        from gradlab.engines.fused.kernels.lanes import NETS
        from gradlab.engines.fused.kernels.update import NUMBERS

        first = setups[0]
        dtype, n, mlp = first.dtype, len(first.dataset.train), first.mlp
        filled = [*setups, *[first] * (NETS - len(setups))]  # unused lanes repeat the first network
        self.setups, self.size = setups, mlp.layout.size
        self.no_memory: list[Running] = [None] * len(mlp.layers)
        self.table, numbers = _table(first)
        self.n = n
        self.slope = dtype.type(first.trial.config.model.activation.parameters.get("negative_slope", 0))
        self.loss, self.optimizer = LOSSES[first.loss.name].code, OPTIMIZERS[first.optimizer.name].code
        rows = [setup.dataset.gather(setup.dataset.train, dtype) for setup in filled]
        self.work = np.zeros((numbers, NETS), dtype)
        self.work[: n * mlp.layers[0].fan_in] = np.stack([x.reshape(-1) for x, _ in rows], axis=1)
        classes = first.dataset.classes is not None
        targets = np.stack([y.reshape(-1) for _, y in rows], axis=1)
        self.labels = targets.astype(np.int64) if classes else np.zeros((1, NETS), np.int64)
        self.values = np.zeros(NETS, dtype) if classes else np.ascontiguousarray(targets.astype(dtype)).reshape(-1)
        self.settings = np.array([_numbers(setup) for setup in filled]).T.copy()
        self.clip = np.array([setup.trial.config.train.clip or 0.0 for setup in filled])
        self.rates = np.stack([setup.rates for setup in filled], axis=1)
        self.theta = np.stack([setup.theta for setup in filled], axis=1).reshape(-1)
        self.gradient, self.m, self.v = (np.zeros_like(self.theta) for _ in range(3))
        self.before, self.ended = self.theta.copy(), self.theta.copy()
        self.alive = np.full(NETS, -1, np.int64)
        widest = max(max(layer.fan_in, layer.fan_out) for layer in mlp.layers)
        self.d, self.d_next = np.zeros(n * widest * NETS, dtype), np.zeros(n * widest * NETS, dtype)
        self.ones = np.ones(NETS, dtype)
        self.numbers, self.own = np.zeros((NUMBERS, NETS), dtype), np.zeros(NUMBERS)

    def steps(self, done: int, stop: int) -> tuple[Array, Array]:
        """Train from one step to another; gives losses and correct answers, step by lane."""
        from gradlab.engines.fused.kernels.lanes import NETS, train_lanes

        losses, correct = np.empty((stop - done, NETS)), np.zeros((stop - done, NETS), np.int64)
        train_lanes(
            self.table, self.n, self.slope, self.loss, self.labels, self.values, self.optimizer, self.settings,
            self.clip, self.rates[done:stop], done, self.theta, self.gradient, self.m, self.v, self.before, self.ended,
            self.alive, self.work.reshape(-1), self.d, self.d_next, self.ones, self.numbers, self.own, losses, correct,
        )  # fmt: skip
        return losses, correct

    def theta_of(self, lane: int) -> Array:
        """Parameters of a network, as they are or as they were when it ended."""
        whole = self.theta if self.alive[lane] < 0 else self.ended
        return whole.reshape(self.size, -1)[:, lane].copy()

    def before_of(self, lane: int) -> Array:
        """Parameters before the latest step."""
        return self.before.reshape(self.size, -1)[:, lane].copy()


def _numbers(setup: Setup) -> tuple[float, float, float, float]:
    """What an optimizer's step depends on besides its rate: μ, α or β₁; β₂; ε; weight decay."""
    o = setup.optimizer.parameters()
    momentum = o.get("beta1", o.get("momentum", o.get("alpha", 0.0)))
    return float(momentum), float(o.get("beta2", 0.0)), float(o.get("epsilon", 0.0)), float(o.get("weight_decay", 0.0))


def _table(setup: Setup) -> tuple[Array, int]:
    """Where a network's numbers lie, in rows of the workspace and of the parameters; and how many rows there are."""
    from gradlab.engines.fused.kernels.lanes import ACT, BIAS, COLUMNS, FAN_IN, FAN_OUT, INPUT, POST, PRE, WEIGHT

    mlp, n = setup.mlp, len(setup.dataset.train)
    starts = {(slot.owner, slot.role): slot.start for slot in mlp.layout.slots}
    table = np.zeros((len(mlp.layers), COLUMNS), np.int64)
    place, room = 0, n * mlp.layers[0].fan_in
    for layer, row in zip(mlp.layers, table, strict=True):
        row[FAN_IN], row[FAN_OUT] = layer.fan_in, layer.fan_out
        row[WEIGHT], row[BIAS] = starts[layer.number, "weight"], starts.get((layer.number, "bias"), -1)
        row[ACT] = ACTIVATIONS[layer.activation.name].code
        row[INPUT], row[PRE] = place, room
        row[POST] = place = room + n * layer.fan_out
        room += 2 * n * layer.fan_out
    return table, room
