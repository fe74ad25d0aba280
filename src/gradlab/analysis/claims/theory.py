"""Claims of the form `value: theory`: the number that theory predicts for the same place, with its band over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, sqrt

from gradlab.analysis.claims.values import Side
from gradlab.analysis.measured import Measured
from gradlab.analysis.theory import predictions_of
from gradlab.spec.claims import THEORY, Claim
from gradlab.spec.place import At
from gradlab.theory.prediction import FACTOR, SIGMAS, Forecast


def with_theory(measured: Measured, claim: Claim, sides: Sequence[Side]) -> Claim | None:
    """The claim with theory's numbers in place of the word; None if theory says nothing there."""
    if claim.value != THEORY:
        return claim
    places = [(side.groups[0], side.at) for side in sides]
    found = [_forecast(measured, str(claim.metric), group, at) for group, at in places]
    if any(one is None or one.center <= 0 for one in found):
        return None
    known = [one for one in found if one is not None]
    if claim.op == "ratio":
        center = known[0].center / known[1].center
        same = places[0][0] == places[1][0]
        squares = [one.spread**2 for one in known]
        spread = sqrt(abs(squares[0] - squares[1]) if same else sum(squares))  # layers of one net share what is above
    else:
        center, spread = known[0].center, known[0].spread
    if claim.within is not None:
        return claim.model_copy(update={"value": center})
    slack = FACTOR if any(one.kind == "order" for one in known) else 1.0
    reach = exp(SIGMAS * spread) * slack
    return claim.model_copy(update={"value": (center / reach, center * reach)})


def theory_says(measured: Measured, claim: Claim, sides: Sequence[Side]) -> float | None:
    """The number itself: the middle of the band."""
    found = with_theory(measured, claim, sides) if claim.value == THEORY else None
    if found is None:
        return None
    return sqrt(found.value[0] * found.value[1]) if isinstance(found.value, tuple) else float(found.value)  # type: ignore[arg-type]


def _forecast(measured: Measured, metric: str, group: str, at: At) -> Forecast | None:
    prediction = predictions_of(measured).get(group)
    if prediction is None or at.step not in ("start", 0) or not isinstance(at.layer, int):
        return prediction.loss if prediction is not None and metric == "initial_loss" and at.layer is None else None
    return prediction.forecast(metric, at.layer)
