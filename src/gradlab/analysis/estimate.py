"""A number over seeds with its interval: the one type. The rules make it (`analysis.rules`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

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
        """All fields, under the names of the summary table."""
        return {
            "mean": self.mean,
            "low": self.low,
            "high": self.high,
            "n": self.n,
            "center": self.value,
            "what": self.what,
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
