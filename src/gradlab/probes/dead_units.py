"""Share of dead units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from gradlab.probes.base import LayerView, Probe
from gradlab.spec.metric import Kind


class DeadUnits(Probe):
    """Share of units whose f'(pre) is exactly 0 on every sample of the probe batch: nothing can reach them."""

    name = "dead_units"
    measures = ("dead_share",)
    kinds: ClassVar[Mapping[str, Kind]] = {"dead_share": "share"}
    labels: ClassVar[Mapping[str, str]] = {"dead_share": "share of dead units"}

    def measure(self, layer: LayerView) -> Mapping[str, float]:
        """0 for layers without a nonlinearity."""
        return {"dead_share": float((layer.slope == 0).all(0).mean())}
