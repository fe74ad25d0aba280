"""Share of dead units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from gradlab.probes.base import LayerView, Probe


class DeadUnits(Probe):
    """Share of units whose f'(pre) is exactly 0 on every sample of the probe batch: nothing can reach them."""

    name = "dead_units"
    measures = ("dead_share",)
    labels: ClassVar = {"dead_share": "share of dead units"}
    linear = frozenset({"dead_share"})

    def measure(self, layer: LayerView) -> Mapping[str, float]:
        """0 for layers without a nonlinearity."""
        return {"dead_share": float((layer.slope == 0).all(0).mean())}
