"""How far a step moves a layer, relative to its size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from gradlab.probes.base import LayerView, Probe, l2
from gradlab.spec.metric import Kind


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
