"""What is worth its price: groups that no other group beats in both value and cost."""

from __future__ import annotations

from dataclasses import dataclass

from gradlab.analysis.measured import Measured

COSTS = ("seconds_per_epoch", "total_seconds", "flops", "parameters")


@dataclass(frozen=True)
class Offer:
    """One group with its mean cost and value; `dominated`: another costs no more and is worth no less."""

    group: str
    cost: float
    value: float
    dominated: bool


def offers(measured: Measured, value: str, cost: str) -> tuple[Offer, ...]:
    """Every group that has both numbers, cheapest first. More value is better, unless its metric says otherwise."""
    sign = measured.metric(value).sign or 1
    found = []
    for name in measured.group_names:
        worth, price = measured.summary(value, name).mean, _cost(measured, cost, name)
        if worth is not None and price is not None:
            found.append((name, price, worth))
    return tuple(
        Offer(name, price, worth, any(_beats(p, sign * w, price, sign * worth) for _, p, w in found))
        for name, price, worth in sorted(found, key=lambda offer: (offer[1], -sign * offer[2]))
    )


def frontier(found: tuple[Offer, ...]) -> tuple[Offer, ...]:
    """Those that are not dominated, cheapest first."""
    return tuple(offer for offer in found if not offer.dominated)


def _beats(cost: float, value: float, other_cost: float, other_value: float) -> bool:
    return cost <= other_cost and value >= other_value and (cost < other_cost or value > other_value)


def _cost(measured: Measured, cost: str, group: str) -> float | None:
    """A metric's mean, or the training time of the whole budget."""
    if cost != "total_seconds":
        return measured.summary(cost, group).mean
    per_epoch = measured.summary("seconds_per_epoch", group).mean
    budget = measured.entries[group].cost
    if per_epoch is None or budget is None or budget.steps_per_epoch == 0:
        return None
    return per_epoch * budget.steps / budget.steps_per_epoch
