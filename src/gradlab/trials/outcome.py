"""The outcome of a trial: numbers, curves and layer measures. Divergence is an outcome, not an exception."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from gradlab.network.layout import Layout
from gradlab.spec.metric import infer

if TYPE_CHECKING:
    from gradlab.trials.trial import TrialLabel


@dataclass(frozen=True)
class Curve:
    """A metric at the steps at which it was recorded."""

    metric: str
    steps: NDArray[np.int64]
    values: NDArray[np.float64]


@dataclass(frozen=True)
class LayerTable:
    """Layer measures in columns of equal length: step × layer × measure -> value."""

    step: NDArray[np.int64]
    layer: NDArray[np.int64]
    measure: tuple[str, ...]
    value: NDArray[np.float64]


@dataclass(frozen=True)
class Snapshot:
    """The parameters after a step, with the norms' running statistics."""

    step: int
    theta: NDArray[Any]
    layout: Layout
    running: Mapping[str, NDArray[Any]]

    @property
    def tensors(self) -> dict[str, NDArray[Any]]:
        """All tensors by name, such as `layer3.weight`."""
        return {**self.layout.named(self.theta), **self.running}


@dataclass(frozen=True)
class Outcome:
    """The result of one trial; `metrics` has None where a number does not exist."""

    status: Literal["done", "diverged"]
    metrics: Mapping[str, float | int | None]
    curves: tuple[Curve, ...]
    layers: LayerTable
    theta: NDArray[Any]
    """Parameters after the last step, flat."""
    snapshots: tuple[Snapshot, ...] = ()
    """Parameters to keep, in the order of steps."""


# A short hash of a trial's results: equal digests mean equal bits.


def _is_wall_time(name: str) -> bool:
    """Numbers that say how long something took are not part of a result's bits."""
    return infer(name).kind == "time"


def digest(trial: str, outcome: Outcome | None, error: str | None) -> str:
    """Hash the trial's id, status, metrics, curves, layer measures and kept parameters, without wall times."""
    status = "failed" if outcome is None else outcome.status
    pieces: list[bytes] = [f"{trial} {status} {error}".encode()]
    if outcome is not None:
        pieces += [f"{name} {value!r}".encode() for name, value in outcome.metrics.items() if not _is_wall_time(name)]
        for curve in outcome.curves:
            if not _is_wall_time(curve.metric):
                pieces += [curve.metric.encode(), _bytes(curve.steps), _bytes(curve.values)]
        layers = outcome.layers
        pieces += [" ".join(layers.measure).encode(), _bytes(layers.step), _bytes(layers.layer), _bytes(layers.value)]
        for kept in outcome.snapshots:
            pieces += [f"{kept.step} {kept.theta.dtype} {len(kept.theta)}".encode(), _bytes(kept.theta)]
            pieces += [piece for name, values in kept.running.items() for piece in (name.encode(), _bytes(values))]
    return sha256(b"\n".join(pieces)).hexdigest()[:16]


def _bytes(values: NDArray[Any]) -> bytes:
    return np.ascontiguousarray(values).tobytes()


# A trial with its outcome, or with the error that prevented one. Workers return it and the store keeps it.

Status = Literal["done", "diverged", "failed"]


@dataclass(frozen=True)
class TrialResult:
    """The result of one trial."""

    trial: TrialLabel
    outcome: Outcome | None
    error: str | None = None
    seconds: float = 0.0
    """Wall time, including probes and evaluation."""
    digest: str = ""
    """Hash of the outcome without its wall times."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """What the trial leaves beside its numbers, by name below the run's folder: what a command printed."""

    @property
    def status(self) -> Status:
        """`done`, `diverged` (an outcome too) or `failed` (no outcome)."""
        return self.outcome.status if self.outcome is not None else "failed"
