"""Evidence that stays valid however often one looks: e-processes.

A bettor begins with 1 and bets against a hypothesis, seed by seed. If the hypothesis is true, the chance that what
the bettor owns, E, ever reaches 1/α is at most α (Ville). So p = 1/E is a p-value after every number of seeds, also
where seeds are added because of what was seen.

Share above p₀, from k of n:  E = ∫ q^k (1−q)^(n−k) dπ(q) / (p₀^k (1−p₀)^(n−k)),  π on (p₀, 1]: half of it at 1, the
other half with density ∝ (1−q)^(−1/2). The median lies above b if the share of values above b is over ½.

Mean above b, of a normal quantity of unknown spread:  the ratio of the likelihoods of (x − b)/s with and without an
effect δ > 0, free of scale by the right Haar prior on σ, mixed over δ ~ N(0, g), δ > 0, and g over powers of 4:

    E_g = 2 (1 + ng)^(−1/2) (S₀/S_g)^(n/2) P(T_n ≤ √(n(n + 1/g)/S_g) · n x̄/(n + 1/g)),
    S_g = Σ(x − x̄)² + n x̄²/(1 + ng)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

CERTAIN = 0.5
"""Weight of `every network does`."""
SPREADS: NDArray[np.float64] = np.array([4.0**power for power in range(-2, 11)])
"""Effect variances g that are betted on."""
_WEIGHTS = np.where(SPREADS < 1, SPREADS**0.5, SPREADS**-0.25)
FARTHEST = 1e6
"""Distance from a bound, in units of √Σ(x − x̄)², at which the search for a critical one ends."""
LOG_WEIGHTS = np.log(_WEIGHTS / _WEIGHTS.sum())


@lru_cache(maxsize=65_536)
def share_evidence(count: int, n: int, share: float) -> float:
    """log E of `more than this share`, from `count` of n."""
    from scipy.special import betainc, betaln

    if share >= 1 or n == 0:
        return -math.inf if n else 0.0
    if share <= 0:
        return math.inf if count and share == 0 else 0.0 if share == 0 else math.inf
    tail = float(betainc(n - count + 0.5, count + 1, 1 - share))
    null = count * math.log(share) + (n - count) * math.log1p(-share)
    spread = -math.inf
    if tail > 0:
        spread = float(betaln(count + 1, n - count + 0.5)) + math.log(tail) - math.log(2 * math.sqrt(1 - share)) - null
    every = -null if count == n else -math.inf
    return float(np.logaddexp(math.log(CERTAIN) + every, math.log(1 - CERTAIN) + spread))


def mean_evidence(n: int, distance: float, squares: float) -> float:
    """log E of `the mean lies above`, of n values with this mean distance and Σ(x − x̄)²."""
    from scipy.special import stdtr

    if n < 2 or squares <= 0:
        return 0.0
    # in units of the spread, so that nothing overflows
    z = n * distance * distance / squares
    shrunk = z / (1 + n * SPREADS)
    logs = math.log(2) - 0.5 * np.log1p(n * SPREADS) + n / 2 * (np.log1p(z) - np.log1p(shrunk))
    location = n * distance / math.sqrt(squares) / (n + 1 / SPREADS)
    scale = np.sqrt((1 + shrunk) / (n * (n + 1 / SPREADS)))
    with np.errstate(divide="ignore"):
        logs = logs + np.log(stdtr(n, location / scale))
    return float(np.logaddexp.reduce(LOG_WEIGHTS + logs))


def p_value(log_evidence: float) -> float:
    """1/E, at most 1."""
    return math.exp(-log_evidence) if log_evidence > 0 else 1.0


def critical_distance(evidence: Callable[[float], float], level: float) -> float:
    """The distance from which on log evidence is enough for a two-sided level; infinite where none is."""
    needed, near, far = math.log(2 / level), 0.0, FARTHEST
    if evidence(far) < needed:
        return math.inf
    for _ in range(80):
        half = (near + far) / 2
        near, far = (near, half) if evidence(half) >= needed else (half, far)
    return far
