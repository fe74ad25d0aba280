"""The cost of a trial: arithmetic and memory from its sizes, time from this machine's measured speed."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

import numpy as np

from gradlab.arithmetic import one_blas_thread
from gradlab.data.base import Facts
from gradlab.network.mlp import MLP
from gradlab.optim.schedules import Horizon
from gradlab.trials.measuring import EVALUATION_ROWS

_PARAMETER_COPIES = 9  # θ, g, Δ, two moments, and the temporaries of an update
_ACTIVATION_COPIES = 7  # a layer's record, and the temporaries of a backward pass
_STEP_BYTES = 96  # learning rate, loss and its row in the table
_CALLS_PER_LAYER_MOMENT = 120  # all probes at one moment
_CALLS_PER_TRIAL = 500  # streams, data, initial parameters


@dataclass(frozen=True)
class Cost:
    """The cost of one trial."""

    parameters: int
    layers: int
    steps: int
    steps_per_epoch: int
    flops: int
    bytes: int
    step_calls: int
    look_calls: int
    """Interpreter calls, independent of sizes: for the steps (as the engine says), and for set-up and probes."""


def trial_cost(
    mlp: MLP,
    facts: Facts,
    horizon: Horizon,
    batch: int,
    evaluations: int,
    moments: int,
    probe: int,
    itemsize: int,
    snapshots: int,
    calls_per_layer_step: int,
) -> Cost:
    """Estimate the matrix products of training and evaluation, and the memory of parameters, activations and data."""
    samples = min(horizon.steps * batch, horizon.steps * facts.samples // max(horizon.steps_per_epoch, 1))
    flops = mlp.flops(samples, backward=True) + evaluations * mlp.flops(facts.evaluated, backward=False)
    widths = sum(layer.fan_in + layer.fan_out for layer in mlp.layers)
    rows = max(batch, probe if moments else 0, min(facts.evaluated, EVALUATION_ROWS))
    memory = itemsize * ((_PARAMETER_COPIES + snapshots) * mlp.layout.size + _ACTIVATION_COPIES * rows * widths)
    memory += facts.bytes + _STEP_BYTES * horizon.steps
    steps = calls_per_layer_step * horizon.steps * len(mlp.layers)
    looks = _CALLS_PER_TRIAL + _CALLS_PER_LAYER_MOMENT * moments * len(mlp.layers)
    return Cost(mlp.layout.size, len(mlp.layers), horizon.steps, horizon.steps_per_epoch, flops, memory, steps, looks)


@dataclass(frozen=True)
class Speed:
    """The speed of this machine, on one core."""

    flops_per_second: float
    seconds_per_call: float

    def seconds(self, cost: Cost) -> float:
        """Estimate the time: arithmetic plus the interpreter's share."""
        return cost.flops / self.flops_per_second + (cost.look_calls + cost.step_calls) * self.seconds_per_call


NOMINAL_SPEED = Speed(2e10, 2e-6)
"""A typical machine: good enough to divide work, not to predict a time."""


def measure_speed() -> Speed:
    """Time a mid-sized matrix product and the small NumPy calls of a layer's step (about 0.1 s in total).

    Uses one BLAS thread, as trials do: on a busy machine several threads wait for each other and take 100 times longer.
    """
    rng = np.random.default_rng(0)
    a, b = rng.random((256, 128), np.float32), rng.random((128, 128), np.float32)
    small = rng.random((64, 64), np.float32)
    with one_blas_thread():
        product = _time_best(lambda: a @ b)
        call = _time_best(lambda: np.maximum(small, 0))
    return Speed(2 * a.size * 128 / product, call)


def _time_best(action: object, rounds: int = 20, repeat: int = 20) -> float:
    times = []
    for _ in range(rounds):
        start = perf_counter()
        for _ in range(repeat):
            action()  # type: ignore[operator]
        times.append((perf_counter() - start) / repeat)
    return min(times)
