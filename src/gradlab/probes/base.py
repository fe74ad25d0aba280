"""What a probe is: it declares what it needs and when, reads one layer at a time, and changes nothing.

Norms are taken in float64 (the square of a small float32 would already be zero), and scaled first where even that is
not enough.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from gradlab.parts import Part
from gradlab.spec.metric import Kind, Metric, infer

Array = NDArray[Any]
Moment = Literal["start", "during", "end"]
Need = Literal["backward", "update"]


@dataclass(frozen=True)
class LayerView:
    """One layer as a probe sees it, on the probe batch of n samples."""

    number: int
    weight: Array
    """(fan_in, fan_out)"""
    weight_gradient: Array | None
    bias_gradient: Array | None
    delta: Array | None
    """dL/dz, (n, fan_out)"""
    pre: Array
    """What entered the nonlinearity."""
    post: Array
    """What left it."""
    stream: Array | None
    """Output of the block that ends in this layer, after the skip."""
    slope: Array
    """f'(pre)"""
    update: Array | None
    """What the latest step added to the weight."""


class Probe(Part):
    """Named numbers of one layer. A number that does not exist there is left out, never set to 0."""

    part: ClassVar[str] = "probe"
    measures: ClassVar[tuple[str, ...]]
    """The names of the numbers it gives. No two probes of a study may share one."""
    kinds: ClassVar[Mapping[str, Kind]] = {}
    """Measure -> what kind of number it is (see spec/metric.py); that of one that is not listed is inferred."""
    labels: ClassVar[Mapping[str, str]] = {}
    """Measure -> what readers are shown, with its unit or symbol; one that is not listed is shown by its name."""
    needs: ClassVar[frozenset[Need]] = frozenset()
    """`backward`: a backward pass on the probe batch; `update`: the latest step's Δ. What is not asked for is None."""
    moments: ClassVar[frozenset[Moment]] = frozenset({"start", "during", "end"})
    """When it can be taken: before the first step, between, after the last."""

    @classmethod
    def metrics(cls) -> tuple[Metric, ...]:
        """Its measures as metrics: what is better, on which scale they are judged."""
        return tuple(
            Metric.of(name, cls.kinds.get(name) or infer(name).kind, label=cls.labels.get(name, ""))
            for name in cls.measures
        )

    @abstractmethod
    def measure(self, layer: LayerView) -> Mapping[str, float]:
        """The numbers of this layer: name -> float, NaN or infinity where that is the value.

        layer: read only, its arrays are the network's own (float32 or float64, n samples of the probe batch).
        Called once per layer and moment; must be deterministic.
        """


def l2(values: Array) -> float:
    """√Σ v², in float64, without underflow or overflow of the squares."""
    flat = values.ravel().astype(np.float64)
    with np.errstate(all="ignore"):
        total = float(flat @ flat)
        if _SAFE[0] < total < _SAFE[1] or not flat.size:
            return math.sqrt(total)
        largest = float(np.abs(flat).max())
        if largest == 0 or not np.isfinite(largest):
            return largest
        flat = flat / largest
        return largest * float(np.sqrt(flat @ flat))


def rms(values: Array) -> float:
    """√(Σ v²/n), as careful as `l2`."""
    return l2(values) / math.sqrt(values.size) if values.size else 0.0


_SAFE = (1e-280, 1e280)
"""A sum of squares in this range has lost nothing."""
