"""Claims of an order: every step has to hold, one reversed step refutes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

from gradlab.analysis.claims.reading import Reading, Test, read_one
from gradlab.analysis.claims.sides import against
from gradlab.analysis.claims.values import Side, sample_of_side
from gradlab.analysis.measured import Measured
from gradlab.analysis.rules import ALPHA, one_arm
from gradlab.spec.claims import Claim


def _order(measured: Measured, claim: Claim, sides: Sequence[Side]) -> Test | None:
    """Sides from largest to smallest. The first against the last is the direction."""
    steps, turned = [], []
    for first, second in pairwise(sides):
        found = against(measured, claim, first, second)
        if found is None:
            return None
        steps.append(found[0])
        if 2 * (len(sides) - 1) * found[0].p_below(found[0].nothing) <= ALPHA:
            turned.append(f"{second.label} is above {first.label}")
    ends = against(measured, claim, sides[0], sides[-1])
    assert ends is not None
    whole, reading = ends
    weakest = max(steps, key=lambda step: step.p_above(step.nothing))
    return Test(
        weakest.p_above(weakest.nothing),
        whole.p_above(whole.nothing),
        min(1.0, len(steps) * min(step.p_below(step.nothing) for step in steps)),
        f"{whole.stated}, for every step",
        whole.assumes,
        (*_each(measured, claim, sides), replace(reading, label=f"end to end: {reading.label}", end_to_end=True)),
        lambda level: weakest.seeds_for(weakest.nothing, level),
        "; ".join(turned[:3]),
        order=True,
    )


def _each(measured: Measured, claim: Claim, sides: Sequence[Side]) -> list[Reading]:
    metric = measured.metric(str(claim.metric))
    samples = [(side.label, sample_of_side(measured, metric.name, side)) for side in sides]
    rules = [(label, one_arm(metric, sample), sample) for label, sample in samples]
    return [read_one(label, rule, sample) for label, rule, sample in rules if rule is not None]


def _reverse(measured: Measured, claim: Claim, sides: Sequence[Side]) -> Test | None:
    found = _order(measured, claim, list(reversed(sides)))
    if found is None:
        return None
    *each, ends = found.readings
    return replace(found, readings=(*reversed(each), ends))


ORDERS: dict[str | None, Callable[[Measured, Claim, Sequence[Side]], Test | None]] = {
    "ordered": _order,
    "decreasing": _order,
    "increasing": _reverse,
}
