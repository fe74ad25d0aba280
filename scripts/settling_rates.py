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
SETTLED = ("reproduced", "not reproduced", "direction only")
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
        """The drawn numbers by seed; those above 1, their median, count as collapsed."""
        numbers = self.numbers[group]
        return dict(enumerate([float(number > 1) for number in numbers] if metric == "collapsed" else numbers))

    def resolution(self, metric: str) -> float:
        """Of floats."""
        return 1e-9


def _arm(number: int) -> str:
    return f"a{number}"


# Claims of which none is true and none is false by more than nothing: whatever is settled of them is wrong. Each has
# its number, and the number of arms to choose from.


def _better(number: int, arms: int) -> dict[str, Any]:
    return {"metric": "final_loss", "arms": [_arm(number), "a0"], "op": ">", "matters": MATTERS}


def _more_accurate(number: int, arms: int) -> dict[str, Any]:
    return {**_better(number, arms), "metric": "test_accuracy"}


def _above_its_median(number: int, arms: int) -> dict[str, Any]:
    return {"metric": "final_loss", "arms": _arm(number), "op": ">", "value": 1}


def _half_collapse(number: int, arms: int) -> dict[str, Any]:
    return {"metric": "collapsed", "arms": _arm(number), "op": ">", "value": 0.5}


def _at_the_edge(number: int, arms: int) -> dict[str, Any]:
    return {"metric": "final_loss", "arms": [_arm(number), "a0"], "op": "ratio", "value": [1, 2]}


def _lowest(number: int, arms: int) -> dict[str, Any]:
    return {"metric": "final_loss", "arms": _arm(number), "op": "lowest", "matters": MATTERS}


def _in_order(number: int, arms: int) -> dict[str, Any]:
    three = [_arm(number), _arm(number % (arms - 1) + 1), "a0"]
    return {"metric": "final_loss", "arms": three, "op": "ordered", "matters": MATTERS}


KINDS = (_better, _above_its_median, _half_collapse, _at_the_edge, _lowest, _in_order)


def _mixed(number: int, arms: int) -> dict[str, Any]:
    return KINDS[number % len(KINDS)](number, arms)


Kind = Callable[[int, int], dict[str, Any]]


def _plan(claims: int, kind: Kind) -> Any:
    """A study of one arm more than claims (at least three), up to the most seeds."""
    count = max(claims + 1, 3)
    arms = {_arm(number): {"train.lr": 1e-3 * (1 + number)} for number in range(count)}
    wanted = [{"text": f"{number}", **kind(number, count)} for number in range(1, claims + 1)]
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


def any_wrong(claims: int, draw: Draw, runs: int, rng: np.random.Generator, kind: Kind = _better) -> float:
    """How often at least one claim of a study ends with a verdict where there is nothing to find."""
    plan, count = _plan(claims, kind), 0
    for _ in range(runs):
        numbers = {planned.group.name: draw(rng, MOST).tolist() for planned in plan.groups}
        count += any(outcome in SETTLED for outcome in run(plan, numbers)[0])
    return count / runs


def _noise(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.exp(0.1 * rng.standard_normal(n))


def _heavy(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.exp(0.05 * rng.standard_t(2, n))


def _collapsing(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.where(rng.random(n) < 0.3, 0.1, 0.95 + 0.01 * rng.standard_normal(n))


def seeds_taken(effect: float, runs: int, rng: np.random.Generator) -> tuple[float, float]:
    """Pairs that one claim with an effect of so many standard deviations took on average, and how often it settled."""
    plan, taken, settled = _plan(1, _better), [], 0
    for _ in range(runs):
        first = 0.1 * math.sqrt(0.5) * rng.standard_normal((2, MOST))
        numbers = {"a0": np.exp(first[0]).tolist(), "a1": np.exp(first[1] + 0.1 * effect).tolist()}
        outcomes, trials = run(plan, numbers)
        taken.append((trials - FIRST) / 2)
        settled += outcomes[0] == "reproduced"
    return float(np.mean(taken)), settled / runs


def oracle(effect: float) -> float:
    """Pairs that a test takes on average which knows effect and spread beforehand (Wald's, at the same level)."""
    return math.log(2 / ALPHA) / (effect**2 / 2)


def section(runs: int, fixed: Callable[[float], int], seed: int = 1) -> tuple[list[str], list[str]]:
    """The lines of the document, and what is not kept. `fixed`: seeds of a t-test that are fixed beforehand."""
    rng, broken = np.random.default_rng(seed), []
    lines = ["", "## Seeds until settled: any wrong verdict in a study, %", ""]
    lines += [
        f"{runs:,} runs each (a quarter of them for 30 claims) of studies whose arms are all equal: from {FIRST} seeds "
        f"up to {MOST}, in rounds, more only for the arms of open claims. Every claim lies on its bound: whatever is "
        "settled is wrong, but *no difference that matters* where a difference was claimed. In the last row the arms "
        "differ by exactly what would matter, and *no difference that matters* is wrong.",
        "",
        f"| | {' | '.join(f'{count} claims' for count in FAMILIES)} |",
        "| --- " * (len(FAMILIES) + 1) + "|",
    ]
    cases: list[tuple[str, Draw, Kind]] = [
        ("two arms, log-normal loss", _noise, _better),
        ("two arms, heavy tails (t₂)", _heavy, _better),
        ("two arms, 30 % of the networks collapse", _collapsing, _more_accurate),
        ("one arm against its median", _noise, _above_its_median),
        ("half of the networks collapse", _noise, _half_collapse),
        ("two arms, a ratio at the edge of its band", _noise, _at_the_edge),
        ("the lowest of all", _noise, _lowest),
        ("three in order", _noise, _in_order),
        ("all these kinds in one study", _noise, _mixed),
    ]

    def row(name: str, rate: Callable[[int, int], float]) -> str:
        rates = [rate(count, runs if count < 30 else max(runs // 4, 1)) for count in FAMILIES]
        print(name, rates, file=sys.stderr, flush=True)
        if max(rates) > ALPHA + 3 * math.sqrt(0.06 / (runs // 4)):
            broken.append(f"until settled, {name}: {rates}")
        return f"| {name} | {' | '.join(f'{100 * rate:.1f}' for rate in rates)} |"

    lines += [row(name, lambda m, n, d=draw, k=kind: any_wrong(m, d, n, rng, k)) for name, draw, kind in cases]  # type: ignore[misc]
    lines.append(row("two arms that differ by what would matter", lambda m, n: _at_the_margin(m, n, rng)))
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
    plan, count = _plan(claims, _better), 0
    for _ in range(runs):
        numbers = {planned.group.name: ((1 + MATTERS) * _noise(rng, MOST)).tolist() for planned in plan.groups}
        numbers["a0"] = _noise(rng, MOST).tolist()
        count += any(outcome in ("no difference", "not reproduced") for outcome in run(plan, numbers)[0])
    return count / runs


if __name__ == "__main__":
    from make_error_rates import seeds_for_t_test

    print("\n".join(section(int(sys.argv[1]), seeds_for_t_test)[0]))
