"""Simulate runs that add seeds until their claims are settled, with the code that decides: a section of error-rates.md.

python scripts/settling_rates.py 100    # the section, from so many runs of each kind
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import gradlab
from gradlab.analysis.claims import judge
from gradlab.analysis.measured import Measured
from gradlab.analysis.rules import ALPHA
from gradlab.analysis.settling import next_round
from gradlab.runs.store.records import Records
from gradlab.spec.claims import At

FIRST, MOST = 6, 60
FAMILIES = (2, 12, 30)
MATTERS = 0.05
Draw = Callable[[np.random.Generator, int], np.ndarray]


@dataclass(frozen=True)
class Drawn(Measured):
    """Numbers drawn beforehand, seen through a plan of so many of their seeds."""

    records: Records = field(default_factory=lambda: Records(()))
    numbers: Mapping[str, Sequence[float]] = field(default_factory=dict)

    @property
    def by_group(self) -> Mapping[str, tuple[Any, ...]]:  # type: ignore[override]
        """No trials: nothing is stored."""
        return dict.fromkeys(self.group_names, ())

    def values(self, metric: str, group: str, at: At | None = None) -> dict[int, Any]:
        """The drawn numbers by seed."""
        return dict(enumerate(self.numbers[group]))

    def resolution(self, metric: str) -> float:
        """Of floats."""
        return 1e-9


def _plan(claims: int, metric: str) -> Any:
    """A study of so many arms that are each compared with the first, up to the most seeds."""
    arms = {f"a{number}": {"train.lr": 1e-3 * (1 + number)} for number in range(claims + 1)}
    wanted = [
        {"text": name, "metric": metric, "arms": [name, "a0"], "op": ">", "matters": MATTERS} for name in list(arms)[1:]
    ]
    base = {
        "data": {"task": "moons", "samples": 32, "test": 32},
        "model": {"depth": 1, "width": 2},
        "train": {"loss": "cross_entropy", "optimizer": "sgd", "batch": 8, "steps": 1},
    }
    seeds = {"from": FIRST, "to": MOST, "until": "settled"}
    tree = {"question": "?", "factor": "train.lr", "base": base, "arms": arms, "claims": wanted, "seeds": seeds}
    return gradlab.plan(tree)


def run(plan: Any, numbers: Mapping[str, Sequence[float]]) -> tuple[list[str], int]:
    """Add seeds to the end: the outcome of every claim, and how many trials it took."""
    while seeds := next_round(Drawn(plan, numbers=numbers)).seeds:
        plan = plan.with_seeds(seeds)
    return [verdict.outcome for verdict in judge(Drawn(plan, numbers=numbers))], len(plan.trials)


def any_wrong(claims: int, draw: Draw, wrong: Sequence[str], runs: int, rng: np.random.Generator, metric: str) -> float:
    """How often at least one claim of a study ends with a wrong verdict."""
    plan, count = _plan(claims, metric), 0
    for _ in range(runs):
        numbers = {planned.group.name: draw(rng, MOST).tolist() for planned in plan.groups}
        outcomes, _ = run(plan, numbers)
        count += any(outcome in wrong for outcome in outcomes)
    return count / runs


def _noise(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.exp(0.1 * rng.standard_normal(n))


def _heavy(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.exp(0.05 * rng.standard_t(2, n))


def _collapsing(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.where(rng.random(n) < 0.3, 0.1, 0.95 + 0.01 * rng.standard_normal(n))


def seeds_taken(effect: float, runs: int, rng: np.random.Generator) -> tuple[float, float]:
    """Pairs that one claim with an effect of so many standard deviations took on average, and how often it settled."""
    plan, taken, settled = _plan(1, "final_loss"), [], 0
    for _ in range(runs):
        first = 0.1 * math.sqrt(0.5) * rng.standard_normal((2, MOST))
        numbers = {"a0": np.exp(first[0]).tolist(), "a1": np.exp(first[1] + 0.1 * effect).tolist()}
        outcomes, trials = run(plan, numbers)
        taken.append(trials / 2)
        settled += outcomes[0] == "reproduced"
    return float(np.mean(taken)), settled / runs


def oracle(effect: float) -> float:
    """Pairs that a test takes on average which knows effect and spread beforehand (Wald's, at the same level)."""
    return math.log(2 / ALPHA) / (effect**2 / 2)


def section(runs: int, fixed: Callable[[float], int], seed: int = 1) -> tuple[list[str], list[str]]:
    """The lines of the document, and what is not kept. `fixed`: seeds of a t-test that are fixed beforehand."""
    rng, broken = np.random.default_rng(seed), []
    settled = ("reproduced", "not reproduced", "direction only")
    lines = ["", "## Seeds until settled: any wrong verdict in a study, %", ""]
    lines += [
        f"{runs:,} runs each (half as many of 30 claims) of studies whose arms are all compared with the first: from "
        f"{FIRST} seeds up to {MOST}, in rounds, more only for the arms of open claims. In the last row the arms "
        "differ by exactly what would matter, and *no difference that matters* is the wrong answer.",
        "",
        f"| | {' | '.join(f'{count} claims' for count in FAMILIES)} |",
        "| --- " * (len(FAMILIES) + 1) + "|",
    ]
    cases: list[tuple[str, Draw, tuple[str, ...], str]] = [
        ("equal arms, log-normal loss", _noise, settled, "final_loss"),
        ("equal arms, heavy tails (t₂)", _heavy, settled, "final_loss"),
        ("equal arms, 30 % of the networks collapse", _collapsing, settled, "test_accuracy"),
    ]
    for name, draw, wrong, metric in cases:
        rates = [any_wrong(m, draw, wrong, runs if m < 30 else runs // 2, rng, metric) for m in FAMILIES]
        lines.append(f"| {name} | {' | '.join(f'{100 * rate:.1f}' for rate in rates)} |")
        if max(rates) > ALPHA + 3 * math.sqrt(0.06 / (runs // 2)):
            broken.append(f"until settled, {name}: {rates}")
    rates = [_at_the_margin(m, runs if m < 30 else runs // 2, rng) for m in FAMILIES]
    lines.append(f"| arms that differ by what would matter | {' | '.join(f'{100 * rate:.1f}' for rate in rates)} |")
    if max(rates) > ALPHA + 3 * math.sqrt(0.06 / (runs // 2)):
        broken.append(f"until settled, at the margin: {rates}")
    lines += ["", "Pairs that one claim takes, on average over runs (of a fixed number: for 80 %):", ""]
    lines += ["| effect, in standard deviations | here | settled, % | t-test, fixed beforehand | oracle |"]
    lines += ["| --- " * 5 + "|"]
    for effect in (0.5, 0.8, 1.0, 1.5, 2.0):
        mean, share = seeds_taken(effect, runs, rng)
        lines.append(f"| {effect} | {mean:.1f} | {100 * share:.0f} | {fixed(effect)} | {oracle(effect):.1f} |")
    lines += [
        "",
        "The oracle knows effect and spread and looks after every seed; what settles here knows neither, looks after "
        "every round, and begins with 6 seeds.",
    ]
    return lines, broken


def _at_the_margin(claims: int, runs: int, rng: np.random.Generator) -> float:
    plan, count = _plan(claims, "final_loss"), 0
    for _ in range(runs):
        numbers = {planned.group.name: ((1 + MATTERS) * _noise(rng, MOST)).tolist() for planned in plan.groups}
        numbers["a0"] = _noise(rng, MOST).tolist()
        count += any(outcome in ("no difference", "not reproduced") for outcome in run(plan, numbers)[0])
    return count / runs


if __name__ == "__main__":
    from make_error_rates import seeds_for_t_test

    print("\n".join(section(int(sys.argv[1]), seeds_for_t_test)[0]))
