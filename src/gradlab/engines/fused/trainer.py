"""A trial trained by the compiled kernels, with all its arrays allocated once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.engines.fused.kernels.arguments import Data, Log, Network, Nonzero, Parameters, Rule, Steps, Workspace
from gradlab.engines.fused.kernels.supported import LOSSES, NEGATIVE, OPTIMIZERS
from gradlab.engines.loop import State, Stretch, Trainer
from gradlab.network.norms import Running
from gradlab.spec.config import Model
from gradlab.trials.measuring import EVALUATION_ROWS, has_evaluation
from gradlab.trials.setup import Setup

Array = NDArray[Any]
MAX_ROWS = 4_000_000
"""Maximum number of rows of batch order per call."""
MAX_STEPS = 20_000
"""Maximum steps per call, for small networks."""
MAX_FLOPS = 2e10
"""Maximum FLOPs per call (a fraction of a second), for large networks."""


class FusedTrainer(Trainer):
    """One compiled call per stretch, by register tiles (`simd`) or BLAS; `sparse`: zeros of the input are left out."""

    def __init__(self, setup: Setup, *, simd: bool, sparse: bool = False) -> None:
        from gradlab.engines.fused.kernels.layout import lay_out

        self._setup, self._sparse = setup, sparse
        rows = max(setup.batch, EVALUATION_ROWS if has_evaluation(setup) else 1)
        self._memory = lay_out(setup.mlp, rows, simd)
        self._passes = (self._memory.fast or None, not self._memory.fast or None, sparse or None)
        self._network = self._describe_network()
        self._data, self._rule = describe_data(setup), describe_rule(setup)
        theta = self._memory.pad(setup.theta)
        gradient, m, v = (np.zeros_like(theta) for _ in range(3))
        self._parameters = Parameters(theta, gradient, m, v, before=theta.copy())
        self._space = self._make_workspace(rows)
        self._steps = 0
        self.longest = _get_max_steps(setup)
        self.advance(0, 0)  # compile or load the kernels before timing starts

    def _describe_network(self) -> Network:
        from gradlab.engines.fused.kernels import sparse
        from gradlab.engines.fused.kernels.product import address

        setup, memory = self._setup, self._memory
        model, catalog = setup.trial.config.model, setup.trial.catalog
        norm = model.norm.build(catalog)
        return Network(
            table=memory.table,
            product=address(memory.simd, setup.dtype.name),
            simd=memory.simd,
            hold=sparse.fill_address() if self._sparse else 0,
            sparse_rows=sparse.sum_address(False, setup.dtype.name) if self._sparse else 0,
            sparse_sums=sparse.sum_address(True, setup.dtype.name) if self._sparse else 0,
            place=memory.place,
            has_skip=memory.has_skip,
            alpha=memory.alpha,
            alpha_at=memory.alpha_at,
            slope=setup.dtype.type(negative_slope(model)),
            epsilon=float(getattr(norm, "epsilon", 0.0)),
            momentum=float(getattr(norm, "momentum", 0.0)),
        )

    def _make_workspace(self, rows: int) -> Workspace:
        memory, dtype = self._memory, self._setup.dtype
        return Workspace(
            work=np.zeros(memory.workspace, dtype),
            inverse=np.zeros(max(memory.inverse, 1), dtype),
            mean=np.zeros(max(memory.running, 1), dtype),
            var=np.ones(max(memory.running, 1), dtype),
            transposes=np.zeros(memory.transposes, dtype),
            buffers=np.zeros((4, rows * memory.widest), dtype),
            ones=np.ones(1, dtype),
            held=make_nonzero(self._setup, memory.widest, self._sparse),
        )

    def advance(self, start: int, stop: int) -> Stretch:
        """Run the steps in one compiled call."""
        from gradlab.engines.fused.kernels.passes import train

        log, setup = Log.of(stop - start), self._setup
        steps = Steps(self._order(start, stop), setup.batch, setup.rates[start:stop] * self.rate_factor, start)
        finished = train(
            self._network, self._data, self._rule, steps, self._parameters, self._space, log, *self._passes
        )
        self._steps = stop
        seen = slice(min(finished + 1, stop - start))
        return Stretch(log.losses[seen], log.correct[seen], log.sizes[seen])

    def _order(self, start: int, stop: int) -> Array:
        """Return the rows of the epochs that these steps belong to."""
        setup = self._setup
        if setup.batch >= len(setup.dataset.train):
            return setup.dataset.train[None, :]
        first, last = start // setup.steps_per_epoch, max(stop - 1, 0) // setup.steps_per_epoch
        return np.stack([setup.order(epoch) for epoch in range(first, last + 1)])

    def state(self) -> State:
        """Return parameters and running statistics in Gradlab's layout."""
        theta, before = (self._unpad(flat) for flat in (self._parameters.theta, self._parameters.before))
        return State(theta, self._running(), theta - before if self._steps else None)

    def parameters(self) -> tuple[Array, list[Running]]:
        """Return the same without the latest update."""
        return self._unpad(self._parameters.theta), self._running()

    def _unpad(self, padded: Array) -> Array:
        return self._memory.unpad(padded, self._setup.mlp.layout.size)

    def _running(self) -> list[Running]:
        from gradlab.engines.fused.kernels.layout import RUN, H

        found: list[Running] = []
        for layer, row in zip(self._setup.mlp.layers, self._memory.table, strict=True):
            window = slice(int(row[RUN]), int(row[RUN] + row[H]))
            both = (self._space.mean[window].copy(), self._space.var[window].copy())
            found.append(both if layer.norm.has_memory else None)
        return found

    def predict(self, x: Array) -> Array:
        """One compiled forward pass in evaluation mode."""
        return self._forward(x, training=False)

    def first_loss(self) -> float:
        """One compiled forward pass in training mode; running statistics are restored."""
        x, y = self._setup.first_batch()
        mean, var = self._space.mean.copy(), self._space.var.copy()
        loss = self._setup.loss.value(self._forward(x, training=True), y)
        self._space.mean[:], self._space.var[:] = mean, var
        return loss

    def _forward(self, x: Array, *, training: bool) -> Array:
        from gradlab.engines.fused.kernels.layout import HP, KP, STREAM, H, K
        from gradlab.engines.fused.kernels.passes import forward_fast, forward_general

        work, n = self._space.work, len(x)
        first, last = self._memory.table[0], self._memory.table[-1]
        window = work[: n * int(first[KP])].reshape(n, int(first[KP]))
        window[:, : int(first[K])] = x
        if self._memory.fast:
            forward_fast(self._network, self._parameters.theta, self._space, None, n)
        else:
            forward_general(self._network, self._parameters.theta, self._space, None, training, n)
        start, stride = int(last[STREAM]), int(last[HP])
        return work[start : start + n * stride].reshape(n, stride)[:, : int(last[H])].copy()


def negative_slopes(model: Model) -> set[float]:
    """Return the numbers of a network's activations that kernels read (see supported.py: NEGATIVE)."""
    given = [choice.parameters for choice in (model.activation, model.head_activation)]
    return {float(own[name]) for own in given for name in NEGATIVE if name in own}


def negative_slope(model: Model) -> float:
    """Return the only one of them; 0 if there is none."""
    return next(iter(negative_slopes(model)), 0.0)


def describe_data(setup: Setup) -> Data:
    """Return the data set as the kernels read it."""
    dtype, data = setup.dtype, setup.dataset
    raw, classes = data.inputs.dtype == np.uint8, data.classes is not None
    return Data(
        pixels=data.inputs.ravel() if raw else np.empty(0, np.uint8),
        values=np.empty(0, dtype) if raw else np.ascontiguousarray(data.scaled(data.inputs, dtype)).ravel(),
        factor=dtype.type(data.factor),
        offset=dtype.type(data.offset),
        labels=data.targets.astype(np.int64) if classes else np.empty(0, np.int64),
        targets=np.empty((0, 1), dtype) if classes else np.ascontiguousarray(data.targets.astype(dtype)),
        loss=LOSSES[setup.loss.name].code,
    )


def make_nonzero(setup: Setup, widest: int, sparse: bool) -> Nonzero:
    """Room for a batch of pixels by columns, as many entries as there could be; none where it is not `sparse`."""
    from gradlab.engines.fused.kernels.sparse import BLOCK, GROUP, RUN
    from gradlab.engines.fused.kernels.tile import PADDING

    dtype, data = setup.dtype, setup.dataset
    pixels, rows = (data.input_width, setup.batch) if sparse else (0, 0)
    entries = rows * pixels // RUN + GROUP
    return Nonzero(
        starts=np.zeros(BLOCK, np.int64),
        columns=np.zeros(pixels * BLOCK, np.uint8),
        samples=np.zeros(entries, np.uint8),
        levels=np.zeros(RUN * entries, np.uint8),
        bounds=np.zeros(-(-rows // BLOCK) * (pixels // RUN + 1), np.int64),
        scale=np.arange(256).astype(dtype) * dtype.type(data.factor),
        offset=np.array([data.offset], dtype),
        one=np.ones(1, dtype),
        start=np.zeros(widest, dtype),
        strip=np.zeros(BLOCK * 4 * PADDING, dtype),
    )


def describe_rule(setup: Setup) -> Rule:
    """Return the optimizer as the kernels read it."""
    from gradlab.engines.fused.kernels.update import NUMBERS

    a, b, epsilon, decay = optimizer_numbers(setup)
    kind, clip = OPTIMIZERS[setup.optimizer.name].code, float(setup.trial.config.train.clip or 0.0)
    return Rule(kind, a, b, epsilon, decay, clip, np.zeros(NUMBERS, setup.dtype))


def optimizer_numbers(setup: Setup) -> tuple[float, float, float, float]:
    """Return the settings of an update besides its rate: μ, α or β₁; β₂; ε; weight decay."""
    own = setup.optimizer
    first = getattr(own, "beta1", getattr(own, "momentum", getattr(own, "alpha", 0.0)))
    b, epsilon, decay = (getattr(own, name, 0.0) for name in ("beta2", "epsilon", "weight_decay"))
    return float(first), float(b), float(epsilon), float(decay)


def _get_max_steps(setup: Setup) -> int:
    """Return the maximum steps per call, bounded by time and by the memory of the batch order of whole epochs."""
    longest = min(MAX_STEPS, max(1, int(MAX_FLOPS / setup.mlp.flops(setup.batch, backward=True))))
    samples = len(setup.dataset.train)
    if setup.batch < samples:
        longest = min(longest, max(1, MAX_ROWS // max(samples, 1)) * setup.steps_per_epoch)
    return longest
