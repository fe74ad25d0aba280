"""What theory expects of the two networks, for the layer view; nothing where `gradlab.predict` is not there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gradlab.errors import GradlabError
from gradlab.plans.plan import Plan

Expected = dict[str, list[float | None]]
"""Row of the layer view (`signal`, `delta`, `gradient`) -> the value at initialization, layer by layer."""


def predict_layers(plan: Plan) -> tuple[Expected, ...] | None:
    """The expected values of each arm; None without `gradlab.predict`, or where it does not cover the networks.

    It is asked for the plan, and answers by group with forecasts: measure of a probe -> layer number -> a number whose
    `center` is drawn.
    """
    try:
        from gradlab import predict
    except ImportError:
        return None
    try:
        found = predict(plan)
        return tuple(_read(found[planned.group.name].forecasts, planned.cost.layers) for planned in plan.groups)
    except GradlabError:
        return None


def _read(forecasts: Mapping[str, Mapping[int, Any]], layers: int) -> Expected:
    """The rows of the layer view, as `layers.py` measures them; None where a layer has no forecast."""
    numbers = range(1, layers + 1)

    def center(measure: str, number: int) -> float | None:
        found = forecasts.get(measure, {}).get(number)
        return None if found is None or not math.isfinite(found.center) else float(f"{found.center:.4g}")

    def signal(number: int) -> float | None:
        for place in ("stream", "post"):
            mean, std = (center(f"activation_{what}.{place}", number) for what in ("mean", "std"))
            if mean is not None and std is not None:
                return math.hypot(mean, std)
        return None

    return {
        "signal": [signal(number) for number in numbers],
        "delta": [center("delta_rms", number) for number in numbers],
        "gradient": [center("grad_rms", number) for number in numbers],
    }
