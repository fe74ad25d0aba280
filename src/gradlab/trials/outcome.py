"""The outcome of a trial: numbers, curves and layer measures. Divergence is an outcome, not an exception."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gradlab.network.layout import Layout


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
