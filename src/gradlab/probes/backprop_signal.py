"""The signal that backpropagation carries: δ = dL/dz of each layer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

from gradlab.probes.base import LayerView, Probe, l2
from gradlab.spec.metric import Kind


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
