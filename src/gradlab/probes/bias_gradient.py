"""The gradient of each bias."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from gradlab.probes.base import LayerView, Probe, l2
from gradlab.spec.metric import Kind


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
