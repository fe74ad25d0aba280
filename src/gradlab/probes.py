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

__all__ = ["LayerView", "Probe"]


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


class WeightGradient(Probe):
    """‖dL/dW‖₂, mean |dL/dW| and its root mean square."""

    name = "weight_gradient"
    measures = ("grad_l2", "grad_mean_abs", "grad_rms")
    kinds: ClassVar[Mapping[str, Kind]] = {"grad_l2": "size", "grad_mean_abs": "size", "grad_rms": "size"}
    labels: ClassVar[Mapping[str, str]] = {
        "grad_l2": "weight gradient, ‖dL/dW‖₂",
        "grad_mean_abs": "mean |dL/dW|",
        "grad_rms": "root mean square of dL/dW",
    }
    needs = frozenset({"backward"})

    def measure(self, layer: LayerView) -> Mapping[str, float]:
        """Three sizes of the same matrix."""
        g = layer.weight_gradient
        assert g is not None
        size = l2(g)
        mean_abs = float(np.abs(g).sum(dtype=np.float64)) / g.size
        return {"grad_l2": size, "grad_mean_abs": mean_abs, "grad_rms": size / math.sqrt(g.size)}


class BiasGradient(Probe):
    """‖dL/db‖₂; layers without a bias have none."""

    name = "bias_gradient"
    measures = ("bias_grad_l2",)
    kinds: ClassVar[Mapping[str, Kind]] = {"bias_grad_l2": "size"}
    labels: ClassVar[Mapping[str, str]] = {"bias_grad_l2": "bias gradient, ‖dL/db‖₂"}
    needs = frozenset({"backward"})

    def measure(self, layer: LayerView) -> Mapping[str, float]:
        """One number, or nothing."""
        return {} if layer.bias_gradient is None else {"bias_grad_l2": l2(layer.bias_gradient)}


class BackpropSignal(Probe):
    """‖δ‖₂ and the root mean square of δ over the probe batch.

    The weight gradient is the product xᵀδ: where signal and δ fall in opposite directions it hides both.
    """

    name = "backprop_signal"
    measures = ("delta_l2", "delta_rms")
    kinds: ClassVar[Mapping[str, Kind]] = {"delta_l2": "size", "delta_rms": "size"}
    labels: ClassVar[Mapping[str, str]] = {
        "delta_l2": "backprop signal, ‖δ‖₂",
        "delta_rms": "backprop signal, root mean square of δ",
    }
    needs = frozenset({"backward"})

    def measure(self, layer: LayerView) -> Mapping[str, float]:
        """Two sizes of the same matrix."""
        assert layer.delta is not None
        size = l2(layer.delta)
        return {"delta_l2": size, "delta_rms": size / math.sqrt(layer.delta.size)}


class Activations(Probe):
    """Mean and standard deviation over batch and units, at `pre` (before the nonlinearity), `post` and `stream`."""

    name = "activations"
    measures = tuple(f"activation_{what}.{place}" for place in ("pre", "post", "stream") for what in ("mean", "std"))
    kinds: ClassVar[Mapping[str, Kind]] = {
        **{f"activation_mean.{place}": "signed" for place in ("pre", "post", "stream")},
        **{f"activation_std.{place}": "size" for place in ("pre", "post", "stream")},
    }
    labels: ClassVar[Mapping[str, str]] = {
        "activation_std.pre": "spread before the nonlinearity",
        "activation_std.post": "spread after the nonlinearity",
        "activation_std.stream": "spread of the residual stream",
        "activation_mean.pre": "mean before the nonlinearity",
        "activation_mean.post": "mean after the nonlinearity",
        "activation_mean.stream": "mean of the residual stream",
    }

    def measure(self, layer: LayerView) -> Mapping[str, float]:
        """`stream` only where a block (or the stem) ends."""
        numbers = {}
        for place, values in (("pre", layer.pre), ("post", layer.post), ("stream", layer.stream)):
            if values is not None:
                exact = values.ravel().astype(np.float64)
                mean = exact.sum() / exact.size
                exact -= mean
                numbers[f"activation_mean.{place}"] = float(mean)
                numbers[f"activation_std.{place}"] = math.sqrt(exact @ exact / exact.size)
        return numbers


class DeadUnits(Probe):
    """Share of units whose f'(pre) is exactly 0 on every sample of the probe batch: nothing can reach them."""

    name = "dead_units"
    measures = ("dead_share",)
    kinds: ClassVar[Mapping[str, Kind]] = {"dead_share": "share"}
    labels: ClassVar[Mapping[str, str]] = {"dead_share": "share of dead units"}

    def measure(self, layer: LayerView) -> Mapping[str, float]:
        """0 for layers without a nonlinearity."""
        return {"dead_share": float((layer.slope == 0).all(0).mean())}


class UpdateRatio(Probe):
    """‖ΔW‖₂/‖W‖₂ of the latest step; left out where W is 0."""

    name = "update_ratio"
    measures = ("update_ratio",)
    kinds: ClassVar[Mapping[str, Kind]] = {"update_ratio": "size"}
    labels: ClassVar[Mapping[str, str]] = {"update_ratio": "update ratio, ‖ΔW‖/‖W‖"}
    needs = frozenset({"update"})
    moments = frozenset({"during", "end"})

    def measure(self, layer: LayerView) -> Mapping[str, float]:
        """One number, or nothing."""
        assert layer.update is not None
        size = l2(layer.weight)
        return {"update_ratio": l2(layer.update) / size} if size > 0 else {}
