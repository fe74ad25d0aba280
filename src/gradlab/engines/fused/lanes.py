"""Train tiny networks of one shape side by side (see kernels/lanes.py).

A trial's own configuration decides whether it is trained this way (`fits`), never its neighbors; a single network
leaves fifteen lanes unused and is no slower. Networks are `alike` if one call can train them: same shapes, samples,
steps and kinds of parts. Data, initial parameters, learning rates and optimizer settings may differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.data.base import Task
from gradlab.engines.fused.kernels.arguments import LaneParameters, LaneRule, Lanes, LaneSpace
from gradlab.engines.fused.kernels.supported import ACTIVATIONS, LOSSES, OPTIMIZERS
from gradlab.engines.fused.trainer import MAX_STEPS, negative_slope, optimizer_numbers
from gradlab.engines.loop import State, Stretch, Trainer
from gradlab.network.norms import Running
from gradlab.parts import Catalog
from gradlab.spec.config import Config
from gradlab.trials.setup import Setup

Array = NDArray[Any]
MAX_WIDTH, MAX_DEPTH, MAX_NUMBERS = 32, 4, 8192
"""Maximum width, hidden layers, and activations of one network: sixteen networks then fit in the cache."""
_MAY_DIFFER = ("lr", "clip", "engine", "schedule", "warmup", "optimizer")
"""Training settings in which networks of one call may differ."""


def fits(config: Config, catalog: Catalog) -> bool:
    """Whether such a trial is trained in a lane: tiny, full batch, no norm, no skip, and nothing that reacts."""
    model, train = config.model, config.train
    if train.early_stopping is not None or train.schedule.build(catalog).reaction(train.lr) is not None:
        return False
    if train.batch != "full" or model.width > MAX_WIDTH or model.depth > MAX_DEPTH or train.steps == 0:
        return False
    if model.norm.name != "none" or (model.skip.name != "none" and model.depth > (model.stem == "linear")):
        return False
    task: Task = config.data.build(catalog)
    facts = task.facts()
    return facts.samples * (facts.input_width + facts.output_width + model.depth * model.width) <= MAX_NUMBERS


def alike(a: Config, b: Config) -> bool:
    """Whether two such trials can be trained in one call."""
    if a.data != b.data or a.measure != b.measure or a.train.optimizer.name != b.train.optimizer.name:
        return False
    models = all(
        getattr(a.model, name) == getattr(b.model, name) for name in type(a.model).model_fields if name != "init"
    )
    return models and all(
        getattr(a.train, name) == getattr(b.train, name)
        for name in type(a.train).model_fields
        if name not in _MAY_DIFFER
    )


def trainers(setups: Sequence[Setup]) -> list[Trainer]:
    """Return one trainer for each of up to sixteen alike trials; they advance together."""
    group = _Group(setups)
    return [LaneTrainer(group, lane) for lane in range(len(setups))]


class LaneTrainer(Trainer):
    """One network of a group. The first lane to advance advances all of them."""

    longest = MAX_STEPS

    def __init__(self, group: _Group, lane: int) -> None:
        self._group, self._lane = group, lane
        self._setup = group.setups[lane]

    def advance(self, start: int, stop: int) -> Stretch:
        """Return this lane's share of the stretch."""
        return self._group.stretch(self._lane, start, stop)

    def state(self) -> State:
        """Return the state now, or at divergence; these networks have no norm."""
        theta, before = self._group.get_theta(self._lane), self._group.get_before(self._lane)
        return State(theta, self._group.no_running, theta - before if self._group.done else None)

    def predict(self, x: Array) -> Array:
        """Forward pass of the reference network: it is tiny and rarely called."""
        p = self._setup.mlp.layout.windows(self._group.get_theta(self._lane))
        return self._setup.mlp.forward(p, x, self._group.no_running, training=False)[0]

    def first_loss(self) -> float:
        """Use the reference network; normally trials without steps are not trained in lanes."""
        x, y = self._setup.first_batch()
        return self._setup.loss.value(self.predict(x), y)


class _Group:
    """All arrays of a group of networks; the last axis runs over the networks."""

    def __init__(self, setups: Sequence[Setup]) -> None:
        from gradlab.engines.fused.kernels.lanes import NETS
        from gradlab.engines.fused.kernels.update import NUMBERS

        first = setups[0]
        dtype, n, mlp = first.dtype, len(first.dataset.train), first.mlp
        filled = [*setups, *[first] * (NETS - len(setups))]  # unused lanes repeat the first network
        self.setups, self.done = setups, 0
        self.no_running: list[Running] = [None] * len(mlp.layers)
        table, numbers = _table(first)
        rows = [setup.dataset.gather(setup.dataset.train, dtype) for setup in filled]
        work = np.zeros((numbers, NETS), dtype)
        work[: n * mlp.layers[0].fan_in] = np.stack([x.reshape(-1) for x, _ in rows], axis=1)
        classes = first.dataset.classes is not None
        targets = np.stack([y.reshape(-1) for _, y in rows], axis=1)
        self._lanes = Lanes(
            table=table,
            n=n,
            slope=dtype.type(negative_slope(first.trial.config.model)),
            loss=LOSSES[first.loss.name].code,
            labels=targets.astype(np.int64) if classes else np.zeros((1, NETS), np.int64),
            values=np.zeros(NETS, dtype) if classes else np.ascontiguousarray(targets.astype(dtype)).reshape(-1),
        )
        self._rule = LaneRule(
            kind=OPTIMIZERS[first.optimizer.name].code,
            settings=np.array([optimizer_numbers(setup) for setup in filled]).T.copy(),
            clip=np.array([setup.trial.config.train.clip or 0.0 for setup in filled]),
            numbers=np.zeros((NUMBERS, NETS), dtype),
            own=np.zeros(NUMBERS),
        )
        self._rates = np.stack([setup.rates for setup in filled], axis=1)
        theta = np.stack([setup.theta for setup in filled], axis=1).reshape(-1)
        gradient, m, v = (np.zeros_like(theta) for _ in range(3))
        ended_at = np.full(NETS, -1, np.int64)
        self._parameters = LaneParameters(theta, gradient, m, v, theta.copy(), theta.copy(), ended_at)
        widest = max(max(layer.fan_in, layer.fan_out) for layer in mlp.layers)
        d, d_next = (np.zeros(n * widest * NETS, dtype) for _ in range(2))
        self._space = LaneSpace(work.reshape(-1), d, d_next, np.ones(NETS, dtype))
        self._latest: tuple[int, Array, Array, float] = (0, np.empty((0, NETS)), np.empty((0, NETS)), 0.0)
        self._advance(0, 0)  # compile or load the kernels before timing starts

    def stretch(self, lane: int, start: int, stop: int) -> Stretch:
        """Return the steps of one lane; the first request trains all lanes."""
        if self.done != stop:
            self._advance(start, stop)
        start, losses, correct, seconds = self._latest
        ended = int(self._parameters.ended_at[lane])
        seen = stop - start if ended < 0 else ended + 1 - start
        return Stretch(losses[lane, :seen], correct[lane, :seen], self._sizes[:seen], seconds)

    def _advance(self, start: int, stop: int) -> None:
        from gradlab.engines.fused.kernels.lanes import NETS, train_lanes

        losses, correct = np.empty((stop - start, NETS)), np.zeros((stop - start, NETS), np.int64)
        began, rates = perf_counter(), self._rates[start:stop]
        train_lanes(self._lanes, self._rule, rates, start, self._parameters, self._space, losses, correct)
        self._sizes = np.full(stop - start, self._lanes.n)
        self._latest = start, _by_lane(losses), _by_lane(correct), (perf_counter() - began) / len(self.setups)
        own = self._parameters
        self._theta, self._before, self._ended = _by_lane(own.theta), _by_lane(own.before), _by_lane(own.ended)
        self.done = stop

    def get_theta(self, lane: int) -> Array:
        """Return the parameters of a network, now or at divergence."""
        theta: Array = (self._theta if self._parameters.ended_at[lane] < 0 else self._ended)[lane]
        return theta

    def get_before(self, lane: int) -> Array:
        """Return the parameters before the latest step."""
        before: Array = self._before[lane]
        return before


def _by_lane(numbers: Array) -> Array:
    """Return a copy with one row per network."""
    from gradlab.engines.fused.kernels.lanes import NETS

    return np.ascontiguousarray(numbers.reshape(-1, NETS).T)


def _table(setup: Setup) -> tuple[Array, int]:
    """Return the table of offsets into workspace and parameters, in rows, and the number of workspace rows."""
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
