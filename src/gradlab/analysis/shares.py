"""How many of n: a share with its exact binomial (Clopper-Pearson) interval."""

from __future__ import annotations

from dataclasses import dataclass

from gradlab.analysis.summary import CONFIDENCE


@dataclass(frozen=True)
class Share:
    """k of n, and the 95 % interval of the probability behind it."""

    count: int
    n: int
    low: float
    high: float

    @property
    def value(self) -> float:
        """k/n."""
        return self.count / self.n


def share(count: int, n: int) -> Share | None:
    """The exact interval: the probabilities under which so few, or so many, are not yet improbable."""
    if n == 0:
        return None
    from scipy.special import betaincinv

    tail = (1 - CONFIDENCE) / 2
    low = 0.0 if count == 0 else float(betaincinv(count, n - count + 1, tail))
    high = 1.0 if count == n else float(betaincinv(count + 1, n - count, 1 - tail))
    return Share(count, n, low, high)
