"""What a deciding rule is: an estimate with its interval, and how improbable the numbers are if it lay elsewhere.

Every p-value is anytime-valid (`rules.evidence`): it holds after any number of looks.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import product
from math import inf
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from gradlab.analysis.estimate import Estimate

ALPHA = 0.05
"""Share of settled verdicts that may be wrong."""
MOST_SEEDS = 10_000
"""Where the search for a sufficient number of seeds ends."""


@dataclass(frozen=True)
class Needed:
    """Seeds in all that would settle something: between the fewest and the most that the numbers make likely."""

    fewest: int
    most: int | None
    """None: no number up to 10,000."""


@dataclass(frozen=True)
class Rule(ABC):
    """Decides on which side of a bound the truth lies. `p_above(b)`: how improbable the data are if it is ≤ b."""

    stated: ClassVar[str]
    """The rule in one sentence, for the report."""
    assumes: ClassVar[str]
    """What it needs to be valid."""

    @cached_property
    def estimate(self) -> Estimate:
        """Center and 95 % interval."""
        return self.estimate_at(ALPHA)

    @abstractmethod
    def estimate_at(self, level: float) -> Estimate:
        """Center, and the interval that is wrong in at most this share of the cases."""

    @abstractmethod
    def p_above(self, bound: float) -> float:
        """One-sided p-value of `the truth is at most bound`; 1 where nothing can be said."""

    @abstractmethod
    def p_below(self, bound: float) -> float:
        """One-sided p-value of `the truth is at least bound`."""

    @abstractmethod
    def seeds_for(self, bound: float, level: float) -> Needed | None:
        """Seeds that would settle the side of this bound if the numbers go on as they are; None: nobody can say."""

    def p_inside(self, low: float, high: float) -> float:
        """Of `the truth lies outside`: both one-sided tests have to agree."""
        return max(0.0 if low == -inf else self.p_above(low), 0.0 if high == inf else self.p_below(high))

    def p_outside(self, low: float, high: float) -> float:
        """Of `the truth lies inside`: one of the one-sided tests is enough (twice the smaller p of the two)."""
        return min(1.0 if low == -inf else self.p_below(low), 1.0 if high == inf else self.p_above(high))


def first_number(enough: Callable[[int], bool], start: int) -> int | None:
    """The smallest number of seeds that is enough: every number at first, then in steps of 5 %."""
    n = start
    while n <= MOST_SEEDS:
        if enough(n):
            return n
        n = max(n + 1, int(n * 1.05))
    return None


def likely_shares(count: int, n: int) -> tuple[float, float]:
    """Between which shares k of n lies in four cases of five (Clopper-Pearson)."""
    from scipy.special import betaincinv

    low = 0.0 if count == 0 else float(betaincinv(count, n - count + 1, 0.1))
    high = 1.0 if count == n else float(betaincinv(count + 1, n - count, 0.9))
    return low, high


# Evidence that stays valid however often one looks: e-processes.
#
# A bettor begins with 1 and bets against a hypothesis, seed by seed. If the hypothesis is true, the chance that what
# the bettor owns, E, ever reaches 1/α is at most α (Ville). So p = 1/E is a p-value after every number of seeds, also
# where seeds are added because of what was seen.
#
# Share above p₀, from k of n:  E = ∫ q^k (1−q)^(n−k) dπ(q) / (p₀^k (1−p₀)^(n−k)),  π on (p₀, 1]: half of it at 1, the
# other half with density ∝ (1−q)^(−1/2). The median lies above b if the share of values above b is over ½.
#
# Center above b, of numbers that lie symmetrically around it: given all |x − b|, each sign is a fair toss, so
#
#     E_λ = ∏ exp(λ u_i s_i)/cosh(λ u_i)      s_i = sign(x_i − b), u_i ≥ 0 any function of |x_1 − b| … |x_i − b|
#
# pays a fair game for every λ. u_i is the normal score of the rank of |x_i − b| among those so far: no scale has to be
# known, and an infinite number is just the largest. λ is about the effect in standard deviations; it is mixed over
# powers of 2. Two thirds of the capital play this game, one third only bets on signs.

CERTAIN = 0.5
"""Weight of `every network does`."""
Numbers = NDArray[np.float64]
STAKES: Numbers = np.array([2.0**power for power in range(-5, 3)])
"""The λ that are mixed."""
BLOCK = 128
"""Numbers whose ranks are found together."""
ON_RANKS = 2 / 3
"""Share of the capital that bets on ranks; the rest bets on signs."""


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


def symmetry_evidence(values: Sequence[float] | Numbers, unresolved: float = 0.0) -> float:
    """log E of `the center lies above 0`, of values in the order of their seeds.

    A value of at most `unresolved` in size is no toss: its sign could not be measured.
    """
    numbers = np.asarray(values, float)
    sizes = np.abs(numbers)
    tossed = sizes > unresolved
    above = numbers[tossed] > 0
    if not len(above):
        return 0.0
    stakes = STAKES[:, None] * _scores(sizes)[tossed]
    # log(exp(s)/cosh(u)) with s = ±u is log 2 − log(1 + exp(∓2u))
    won = math.log(2) * len(above) - np.log1p(np.exp(np.where(above, -2.0, 2.0) * stakes)).sum(1)
    largest = float(won.max())
    mixed = largest + math.log(float(np.exp(won - largest).mean()))
    toss = share_evidence(int(above.sum()), len(above), 0.5)
    return float(np.logaddexp(math.log(ON_RANKS) + mixed, math.log(1 - ON_RANKS) + toss))


def _scores(sizes: Numbers) -> Numbers:
    """The normal score of the rank of each size among those up to it; ties share their mean rank."""
    from scipy.special import ndtri

    ranks = np.empty(len(sizes))
    # block by block: those before it by sorting, those inside it one by one
    for start in range(0, len(sizes), BLOCK):
        block, before = sizes[start : start + BLOCK], np.sort(sizes[:start])
        earlier = np.tri(len(block), dtype=bool)
        smaller = before.searchsorted(block, "left") + ((block[None, :] < block[:, None]) & earlier).sum(1)
        up_to = before.searchsorted(block, "right") + ((block[None, :] <= block[:, None]) & earlier).sum(1)
        ranks[start : start + BLOCK] = (smaller + up_to + 1) / 2
    found: Numbers = ndtri(0.5 + 0.5 * ranks / np.arange(2, len(sizes) + 2))
    return found


def p_value(log_evidence: float) -> float:
    """1/E, at most 1."""
    return math.exp(-log_evidence) if log_evidence > 0 else 1.0


# Looks that are planned for everybody: a test of just the first 5, 10 and 20 seeds, beside evidence at any other time.
#
# Evidence that is valid after any number of looks has little power with few seeds. Most studies have 5, 10 or 20 seeds,
# so part of α is spent on an ordinary test of just the first 5, 10 and 20, as soon as they are there, whatever the
# study's own number of seeds:
#
#     p = min over k of p(first k)/w_k and of 1/(0.4 E),   w_5 = 0.2, w_10 = 0.25, w_20 = 0.15
#
# is ever below α in at most (0.2 + 0.25 + 0.15 + 0.4) α of the cases, however often one looks (Bonferroni, Ville).
#
# The test is Student's, with two limits that keep it honest where differences are not normal:
#
# - Unless all of the first 5 or 10 lie on one side, p is not below that of the exact sign-flip permutation test, which
#   needs symmetry only.
# - p is not below 4^−k. If both arms collapse in half of their seeds, by chance alone all k differences are equal and
#   large that often, and t has no bound then: without this limit a smaller level, as Holm asks of many claims, would
#   not make the test stricter. So 5 pairs settle nothing among more than 5 claims, and 3 pairs settle nothing at all.

LOOKS = {5: 0.2, 10: 0.25, 20: 0.15}
"""Seeds -> the share of α that a test of the first so many may spend."""
ANYTIME = 1 - sum(LOOKS.values())
FEWEST = min(LOOKS)
EXACT_UP_TO = 10
"""Seeds of which all sign flips are counted."""


@dataclass(frozen=True)
class Moments:
    """Of the first n values: their mean and standard deviation, with what rounding to the resolution adds."""

    n: int
    mean: float
    spread: float

    @staticmethod
    def of(values: Sequence[float], resolution: float = 0.0) -> Moments:
        """At least what floating-point numbers resolve: no spread is 0."""
        numbers = np.asarray(values, float)
        # in units of the largest: squares of 1e-170 and of 1e170 are no numbers
        unit = float(np.abs(numbers).max()) or 1.0
        mean = float((numbers / unit).mean())
        squares = float(((numbers / unit - mean) ** 2).sum()) + len(numbers) * (resolution / unit) ** 2 / 12
        least = len(numbers) * float(np.finfo(float).eps) ** 2
        return Moments(len(numbers), mean * unit, math.sqrt(max(squares, least) / max(len(numbers) - 1, 1)) * unit)

    def tail(self, distance: float) -> float:
        """One-sided p of Student's t-test, with the mean so far above the bound."""
        from scipy.special import stdtr

        return float(stdtr(self.n - 1, -distance / self.spread * math.sqrt(self.n)))

    def distance(self, tail: float) -> float:
        """How far above a bound the mean has to lie for this one-sided p."""
        from scipy.special import stdtrit

        return -float(stdtrit(self.n - 1, tail)) * self.spread / math.sqrt(self.n)


@dataclass(frozen=True)
class Look:
    """The planned test of the first seeds: one-sided, of the mean above a bound."""

    values: tuple[float, ...]
    moments: Moments
    share: float
    """Of α."""
    resolution: float

    def p(self, bound: float, sign: int) -> float:
        """Of `the center does not lie above the bound` (sign 1), or below it (−1); over its share of α."""
        beyond = sign * (np.asarray(self.values) - bound)
        distance = sign * (self.moments.mean - bound)
        found = self.moments.tail(math.copysign(max(abs(distance) - self.resolution / 2, 0.0), distance))
        if len(beyond) <= EXACT_UP_TO and not (beyond > 0).all():
            found = max(found, sign_flip_tail(beyond))
        return max(found, floor(len(beyond))) / self.share

    def edge(self, sign: int, level: float) -> float:
        """The last bound below (sign 1) that is refuted, or above (−1, with its sign turned); −∞ where none is."""
        if floor(len(self.values)) / self.share > level / 2:
            return -math.inf
        found = sign * self.moments.mean - self.moments.distance(self.share * level / 2) - self.resolution / 2
        if self.p(sign * found, sign) <= level / 2 * (1 + 1e-9):
            return found
        # Student's bound is refused by the permutation test: below the smallest value all lie on one side
        low, high = min(found, min(sign * value for value in self.values)), found
        low -= abs(low) * 1e-12
        for _ in range(30):
            half = (low + high) / 2
            low, high = (half, high) if self.p(sign * half, sign) <= level / 2 else (low, half)
        return low


def planned_looks(values: Sequence[float], resolution: float = 0.0) -> list[Look]:
    """The tests of the first 5, 10 and 20 values that are there; none of which a value is not finite."""
    found = []
    for n, share in LOOKS.items():
        first = tuple(values[:n])
        if len(first) == n and all(map(math.isfinite, first)):
            found.append(Look(first, Moments.of(first, resolution), share, resolution))
    return found


def floor(n: int) -> float:
    """The smallest one-sided p of n seeds: all of them differ equally by chance that often if arms collapse."""
    return 4.0**-n


def sign_flip_tail(values: NDArray[np.float64]) -> float:
    """One-sided p of the sum under all sign flips."""
    return float(np.mean(_flips(len(values)) @ np.abs(values) >= values.sum() - 1e-12 * np.abs(values).sum()))


@cache
def _flips(n: int) -> NDArray[np.float64]:
    return np.array(list(product((1.0, -1.0), repeat=n)))


def scheduled_p(n: int, effect: float) -> float:
    """One-sided p of a planned look at an effect of so many standard deviations; 1 where none is planned."""
    return max(Moments(n, effect, 1.0).tail(effect), floor(n)) / LOOKS[n] if n in LOOKS else 1.0


# What rules on medians share.


def middle(low: tuple[float, ...], high: tuple[float, ...]) -> float | None:
    """The median of values between these ends; where they leave it open, of those that are known."""
    if low == high:
        return _middle(sorted(low))
    known = [a for a, b in zip(low, high, strict=True) if a == b]
    whole = [_middle(sorted(ends)) for ends in (low, high)]
    return whole[0] if whole[0] == whole[1] else _middle(sorted(known)) if known else None


def _middle(ordered: list[float]) -> float:
    n = len(ordered)
    low, high = ordered[(n - 1) // 2], ordered[n // 2]
    return low if low == high or math.isinf(low) else high if math.isinf(high) else (low + high) / 2


def seeds_for_majority(count: int, n: int, level: float) -> Needed | None:
    """Seeds at which the same majority settles it; the range comes from the share's own uncertainty."""
    low, high = likely_shares(count, n)

    def settles(share: float) -> int | None:
        if share <= 0.5:
            return None
        return first_number(lambda m: 2 * p_value(share_evidence(round(share * m), m, 0.5)) <= level, n + 1)

    fewest = settles(high)
    return None if fewest is None else Needed(fewest, settles(low))
