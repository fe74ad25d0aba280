"""Pareto-optimal groups: those that no other group beats in both value and cost, as far as the seeds tell."""

from __future__ import annotations

from dataclasses import dataclass

from gradlab.analysis.comparison import compare
from gradlab.analysis.estimate import Estimate
from gradlab.analysis.measured import Measured
from gradlab.analysis.rules import ALPHA

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
    budget = measured.entries[group].cost
    if per_epoch is None or budget is None or budget.steps_per_epoch == 0:
        return None
    return per_epoch * budget.steps / budget.steps_per_epoch
