"""Numbers as people read them."""

from __future__ import annotations

from gradlab.analysis.estimate import Estimate
from gradlab.spec.claims import At, describe_layer
from gradlab.words import bracket, counted, rounded


def interval(summary: Estimate) -> str:
    """Center [low, high]; of too few seeds for an interval center (smallest … largest); or what there is."""
    odd = [f"{count} × {name}" for count, name in _odd(summary) if count]
    if summary.value is None:
        return ", ".join(odd) or "–"
    text = rounded(summary.value, 4)
    if summary.bounded and summary.smallest != summary.largest:
        text += f" ({rounded(summary.smallest)} … {rounded(summary.largest)})"
    elif not summary.bounded and summary.low is not None and summary.low != summary.high:
        text += f" {bracket(summary.low, summary.high)}"
    if summary.zeros and summary.what == "median":
        odd.append(counted(summary.zeros, "exact zero"))
    if summary.missing:
        odd.append(f"in {summary.n} of {summary.planned} seeds")
    return ", ".join([text, *odd])


def _odd(summary: Estimate) -> tuple[tuple[int, str], ...]:
    return (summary.nan, "NaN"), (summary.inf, "∞"), (summary.minus_inf, "−∞")


def percent_range(share: Estimate) -> str:
    """The interval of a share: `35–93 %`."""
    low, high = (100 * (0.0 if end is None else end) for end in (share.low, share.high))
    return f"{low:.0f}–{high:.0f} %"


def times(ratio: float | None) -> str:
    """`5.3×`; close to 1 with more digits, so that it is never `1×` where there is a difference."""
    return f"{rounded(ratio, 3 if ratio is None or abs(ratio - 1) >= 0.01 else 5)}×"


def where(metric: str, at: At) -> str:
    """Metric and place in words: `grad_l2, layer 1, end`."""
    words = [metric]
    if at.layer is not None:
        words.append(describe_layer(at.layer))
    if at.step is not None:
        words.append("start" if at.step == "start" else "end" if at.step == "end" else f"step {at.step}")
    return ", ".join(words)
