"""The gradient of each weight matrix."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from gradlab.probes.base import LayerView, Probe, l2
from gradlab.spec.metric import Kind


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
