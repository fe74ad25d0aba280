"""Groups of a run beside each other.

Two groups paired over seeds; all groups from best to worst; those that no other beats in both value and cost; how long
each takes to reach a target; how many of its networks ended at chance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradlab.analysis.estimate import Estimate
from gradlab.analysis.measured import Measured
from gradlab.analysis.rules import ALPHA, Paired, Proportion, two_arms
from gradlab.analysis.sample import Sample
from gradlab.spec.claims import At
from gradlab.spec.metric import Metric
from gradlab.trials.metrics import guessing_limit

# Two groups, paired over seeds: how many times larger, or how much more, with its interval.


@dataclass(frozen=True)
class Comparison:
    """b against a: the median difference, and the median ratio where ratios are what matters."""

    metric: str
    a: str
    b: str
    difference: Estimate
    ratio: Estimate | None
    zero_pairs: int = 0
    """Pairs with an exact zero on one side only: their ratio is 0 or infinite."""
    unknown: int = 0
    """Pairs in which a side failed, is missing or has no number: they count against every conclusion."""
    identical: bool = False
    """Whether every pair is equal to the last digit."""

    @property
    def n(self) -> int:
        """Planned pairs."""
        return self.difference.n

    @property
    def settled(self) -> bool:
        """Whether the arms are shown to differ."""
        return self.difference.excludes(0) if self.ratio is None else self.ratio.excludes(1)

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        d, r = self.difference, self.ratio
        return {
            "metric": self.metric,
            "a": self.a,
            "b": self.b,
            "n": self.n,
            "difference": d.value,
            "difference_low": d.low,
            "difference_high": d.high,
            "ratio": None if r is None else r.value,
            "ratio_low": None if r is None else r.low,
            "ratio_high": None if r is None else r.high,
            "zero_pairs": self.zero_pairs,
            "unknown": self.unknown,
        }


def compare(
    measured: Measured, metric: str, a: str, b: str, at: At | None = None, *, level: float = ALPHA
) -> Comparison | None:
    """Two groups of one study, paired over the planned seeds; None if there is no number in either."""
    left, right = measured.sample(metric, a, at), measured.sample(metric, b, at)
    found = measured.metric(metric)
    return compare_samples(found, (a, b), left, right, level=level, resolution=measured.resolution(metric))


def compare_samples(
    metric: Metric,
    names: tuple[str, str],
    left: Sample,
    right: Sample,
    *,
    level: float = ALPHA,
    resolution: float = 0.0,
) -> Comparison | None:
    """Every seed that is planned on both sides, right against left."""
    rule = two_arms(metric, right, left, resolution=resolution)
    if rule is None or not (left.known and right.known):
        return None
    plain = two_arms(metric, right, left, resolution=resolution, logs=False) if rule.logs else rule
    assert isinstance(plain, Paired)
    shared = [seed for seed in left.ends if seed in right.ends]
    zeros = sum((left.ends[seed] == (0, 0)) != (right.ends[seed] == (0, 0)) for seed in shared)
    return Comparison(
        metric.name,
        *names,
        plain.estimate_at(level),
        rule.estimate_at(level) if rule.logs else None,
        zeros,
        sum(low != high for low, high in zip(plain.low, plain.high, strict=True)),
        all(low == high == 0 for low, high in zip(plain.low, plain.high, strict=True)),
    )


# Groups from best to worst, and what their seeds settle about the best.


@dataclass(frozen=True)
class Best:
    """The group with the best median.

    It was picked among all groups, so its interval and its comparisons are at the level of all of them together
    (Bonferroni).
    """

    group: str
    estimate: Estimate
    ties: tuple[str, ...]
    """Groups that it is not shown to be better than."""
    others: int


def ranked(measured: Measured, metric: str) -> list[str]:
    """Groups with a number, best median first; diverged networks count as worst. None where nothing is better."""
    sign = measured.metric(metric).sign
    if sign == 0:
        return []
    centers = {name: measured.summary(metric, name) for name in measured.group_names}
    there = [name for name, found in centers.items() if found.value is not None and (found.n or found.diverged)]
    return sorted(there, key=lambda name: -sign * float(centers[name].value or 0.0))


def best_of(measured: Measured, metric: str) -> Best | None:
    """The best group with those that its seeds do not settle it is better than."""
    order = ranked(measured, metric)
    if not order or not math.isfinite(measured.summary(metric, order[0]).value or 0.0):
        return None
    first, sign = order[0], measured.metric(metric).sign
    pairs = max(len(order) * (len(order) - 1) // 2, 1)
    ties = []
    for other in order[1:]:
        found = compare(measured, metric, other, first, level=ALPHA / pairs)
        better = found is not None and found.settled and sign * (found.difference.value or 0.0) > 0
        if not better:
            ties.append(other)
    estimate = measured.summary(metric, first, level=ALPHA / len(order))
    return Best(first, estimate, tuple(ties), len(order) - 1)


# Pareto-optimal groups: those that no other group beats in both value and cost, as far as the seeds tell.

COSTS = ("seconds_per_epoch", "total_seconds", "flops", "parameters")


@dataclass(frozen=True)
class Offer:
    """One group with its median cost and value."""

    group: str
    cost: float
    value: float
    dominated: bool
    """By the medians, another group costs no more and is worth no less."""
    value_range: Estimate
    settled: bool = True
    """Whether the seeds settle that: each dominated group is shown to be worth less than a cheaper one."""


def offers(measured: Measured, value: str, cost: str) -> tuple[Offer, ...]:
    """Every group that has both numbers, cheapest first. More value is better, unless its metric says otherwise."""
    sign = measured.metric(value).sign or 1
    found = []
    for name in measured.group_names:
        worth, price = measured.summary(value, name).value, _cost(measured, cost, name)
        if worth is not None and price is not None:
            found.append((name, price, worth))
    made = []
    for name, price, worth in sorted(found, key=lambda offer: (offer[1], -sign * offer[2])):
        beating = [(sign * w, other) for other, p, w in found if _beats(p, sign * w, price, sign * worth)]
        settled = not beating or _surely(measured, value, name, max(beating)[1], len(found))
        made.append(Offer(name, price, worth, bool(beating), measured.summary(value, name), settled))
    return tuple(made)


def frontier(found: tuple[Offer, ...]) -> tuple[Offer, ...]:
    """Those that are not dominated, cheapest first."""
    return tuple(offer for offer in found if not offer.dominated)


def _beats(cost: float, value: float, other_cost: float, other_value: float) -> bool:
    return cost <= other_cost and value >= other_value and (cost < other_cost or value > other_value)


def _surely(measured: Measured, value: str, name: str, best: str, groups: int) -> bool:
    """Whether the best of the groups that dominate one is shown to be worth more (Bonferroni over all groups)."""
    found = compare(measured, value, name, best, level=ALPHA / max(groups - 1, 1))
    sign = measured.metric(value).sign or 1
    return found is not None and found.settled and sign * (found.difference.value or 0.0) > 0


def _cost(measured: Measured, cost: str, group: str) -> float | None:
    """A metric's median, or the training time of the whole budget."""
    if cost != "total_seconds":
        return measured.summary(cost, group).value
    per_epoch = measured.summary("seconds_per_epoch", group).value
    budget = measured.entries[group].known_cost
    if per_epoch is None or budget is None or budget.steps_per_epoch == 0:
        return None
    return per_epoch * budget.steps / budget.steps_per_epoch


# How long it takes to reach a target: steps, epochs, seconds; a seed that never does is censored, not left out.


@dataclass(frozen=True)
class Convergence:
    """Medians over all seeds, those that never arrived counted as later than any: inf if that is half of them."""

    group: str
    reached: Estimate
    steps: float
    epochs: float
    seconds: float
    unknown: int = 0
    """Planned seeds that failed or are missing."""


def convergence_of(measured: Measured, group: str) -> Convergence | None:
    """None where the study has no target."""
    if measured.study.target is None:
        return None
    steps, epochs = measured.sample("steps_to_target", group), measured.sample("epochs_to_target", group)
    paces = measured.values("seconds_per_epoch", group)
    known = steps.known
    if not known:
        return None
    arrived = Proportion(sum(map(math.isfinite, known)), len(steps.ends), steps.unknown)
    seconds = [
        low * pace if math.isfinite(low) and (pace := paces.get(seed)) is not None else math.inf
        for seed, (low, high) in epochs.ends.items()
        if low == high
    ]
    return Convergence(group, arrived.estimate, _median(known), _median(epochs.known), _median(seconds), steps.unknown)


def _median(values: list[float]) -> float:
    """Of values of which infinity is later than any number."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    low, high = ordered[middle - 1], ordered[middle]
    return high if math.isinf(high) else (low + high) / 2


# Classifiers that are not better than always answering one class: how many, and when the others escaped.
#
# A group of deep plain networks can be a mixture: some seeds stay at chance, some escape late. A mean of such a mixture
# describes no network, so it is told by a share with its interval, a median and the epochs of escape.

CURVES = ("test_accuracy", "validation_accuracy", "train_accuracy")


@dataclass(frozen=True)
class Collapse:
    """Of one group: the share that ended at chance, the median accuracy, and the epoch in which each seed escaped."""

    group: str
    share: Estimate
    median: float | None
    escapes: tuple[int, ...]
    """Epochs after which accuracy first was above guessing, of the seeds that did not end at chance, in order."""
    unknown: int = 0
    """Planned seeds of which nobody can say: they diverged, failed or are missing."""

    @property
    def mixed(self) -> bool:
        """Whether some seeds collapsed and some did not."""
        return 0 < self.share.count < self.share.n


def collapse_of(measured: Measured, group: str) -> Collapse | None:
    """None where the group's task has no classes or nothing was evaluated."""
    sample = measured.sample("collapsed", group)
    metric = next((name for name in CURVES if name in measured.metrics), None)
    if not sample.known or metric is None:
        return None
    median = measured.summary(metric, group).value
    escapes = tuple(_escapes(measured, metric, group))
    return Collapse(group, Proportion.of(sample).estimate, median, escapes, sample.unknown)


def _escapes(measured: Measured, metric: str, group: str) -> list[int]:
    per_epoch, limit = measured.steps_per_epoch(group), _limit(measured, metric, group)
    epochs = []
    ended = measured.values("collapsed", group)
    for seed, (steps, values) in measured.curves_by_seed(metric, group).items():
        if ended[seed] != 0:  # it may have risen above chance on the way, and fallen back
            continue
        above = np.flatnonzero(values > limit)
        if len(above):
            epochs.append(int(-(-steps[above[0]] // per_epoch)))
    return sorted(epochs)


def _limit(measured: Measured, metric: str, group: str) -> float:
    """Up to where an accuracy on the way counts as guessing.

    A run keeps no targets, but the accuracies that its collapsed networks ended with: the largest is the share of the
    most common class, or close to it.
    """
    classes, rows = measured.entries[group].classes or 2, measured.rows(metric, group) or 1
    ended = [
        (collapsed, measured.values(metric, name).get(seed))
        for name in measured.group_names
        for seed, collapsed in measured.values("collapsed", name).items()
    ]
    shares = [float(accuracy) for collapsed, accuracy in ended if collapsed and accuracy is not None]
    return guessing_limit(max([1 / classes, *shares]), rows)
