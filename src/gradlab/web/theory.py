"""What theory expects of the two networks before training, with its band over seeds, for the layer view."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypedDict

from gradlab import api
from gradlab.errors import GradlabError
from gradlab.plans.plan import Plan
from gradlab.theory.prediction import Forecast, Prediction

Numbers = list[float | None]
"""Layer by layer; None where a layer has no forecast."""
PLACES = ("stream", "post")
"""Where the signal is read: in the residual stream, where there is one."""


class Expected(TypedDict):
    """One row of the layer view: the line, the band that holds 95 % of the seeds, and how it was found."""

    center: Numbers
    low: Numbers
    high: Numbers
    kind: str
    """`exact`, `order` (of magnitude only) or `simulated`; the weakest of all layers."""


def predict_layers(plan: Plan) -> tuple[dict[str, Expected], ...] | None:
    """The expected rows of each arm (`signal`, `delta`, `gradient`); None where theory does not cover the networks."""
    try:
        found = api.predict(plan)
        return tuple(_read(found[planned.group.name], planned.cost.layers) for planned in plan.groups)
    except GradlabError:
        return None


def _read(prediction: Prediction, layers: int) -> dict[str, Expected]:
    """The rows as `layers.py` measures them."""
    forecasts = prediction.forecasts

    def find(measure: str, number: int) -> Forecast | None:
        return forecasts.get(measure, {}).get(number)

    def signal(number: int) -> Forecast | None:
        for place in PLACES:
            mean, std = (find(f"activation_{what}.{place}", number) for what in ("mean", "std"))
            if mean is not None and std is not None:  # the size differs between seeds as the standard deviation does
                return Forecast(math.hypot(mean.center, std.center), std.spread, std.kind)
        return None

    rows: dict[str, Callable[[int], Forecast | None]] = {
        "signal": signal,
        "delta": lambda number: find("delta_rms", number),
        "gradient": lambda number: find("grad_rms", number),
    }
    return {row: _expect([get(number) for number in range(1, layers + 1)]) for row, get in rows.items()}


def _expect(forecasts: list[Forecast | None]) -> Expected:
    known = [found if found is not None and math.isfinite(found.center) else None for found in forecasts]
    kinds = {found.kind for found in known if found is not None}
    return {
        "center": [None if found is None else _number(found.center) for found in known],
        "low": [None if found is None else _number(found.low) for found in known],
        "high": [None if found is None else _number(found.high) for found in known],
        "kind": next((kind for kind in ("order", "simulated") if kind in kinds), "exact"),
    }


def _number(value: float) -> float | None:
    return float(f"{value:.4g}") if math.isfinite(value) else None
