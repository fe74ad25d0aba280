"""A number over seeds with its interval: the one type. The rules make it (`analysis.rules`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from gradlab.words import bracket, counted, describe_layer, rounded

if TYPE_CHECKING:
    from gradlab.spec.claims import At

What = Literal["median", "share", "mean"]


@dataclass(frozen=True)
class Estimate:
    """A center with its interval, which is the quantity's own bounds where nothing narrower is valid."""

    value: float | None
    """None where no seed has a number."""
    low: float | None
    high: float | None
    n: int
    """Of a summary: finite values. Of a rule's own estimate: all planned seeds (or pairs)."""
    what: What = "median"
    """What the value and its interval are of."""
    bounded: bool = False
    """Whether the interval is no narrower than the quantity's own bounds: too few seeds to say more."""
    mean: float | None = None
    median: float | None = None
    smallest: float | None = None
    largest: float | None = None
    """Of the finite values."""
    planned: int = 0
    """Seeds of the plan."""
    zeros: int = 0
    """Exact zeros."""
    nan: int = 0
    inf: int = 0
    minus_inf: int = 0
    missing: int = 0
    """Planned seeds in which the number does not exist."""
    diverged: int = 0
    failed: int = 0
    """Planned seeds that ended so."""
    sampling_error: float | None = None
    """Of an accuracy: the 95 % half-width that evaluating on finitely many rows adds."""

    @property
    def nonfinite(self) -> int:
        """NaN and infinite values together."""
        return self.nan + self.inf + self.minus_inf

    @property
    def count(self) -> int:
        """Of a share k/n: k."""
        return round((self.value or 0.0) * self.n)

    def excludes(self, bound: float) -> bool:
        """Whether the bound lies outside the interval."""
        return self.low is not None and self.high is not None and not self.low <= bound <= self.high

    def to_json(self) -> dict[str, Any]:
        """All fields, under the names of the summary table: center and span are of the same statistic (`what`).

        `span` says what low and high are: the 95 % interval, or of too few seeds the range from smallest to largest.
        """
        low, high, span = self.low, self.high, "interval"
        if self.bounded and self.smallest is not None:  # too few seeds for an interval: never 0 … ∞
            low, high, span = self.smallest, self.largest, "range"
        return {
            "center": self.value,
            "low": low,
            "high": high,
            "span": span if low is not None else None,
            "n": self.n,
            "what": self.what,
            "mean": self.mean,
            "median": self.median,
            "smallest": self.smallest,
            "largest": self.largest,
            "planned": self.planned,
            "zeros": self.zeros,
            "nan": self.nan,
            "inf": self.inf,
            "minus_inf": self.minus_inf,
            "missing": self.missing,
            "diverged": self.diverged,
            "failed": self.failed,
            "sampling_error": self.sampling_error,
        }


# A number with its interval, and where it was measured, as people read them.


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
