"""Simulate the deciding rules and write docs/error-rates.md: false verdicts, coverage, power.

python scripts/make_error_rates.py               # half an hour
python scripts/make_error_rates.py --only settling   # the section of seeds until settled; the rest stays
python scripts/make_error_rates.py --check       # fewer draws; exit code 1 if a rate is not kept
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gradlab
import settling_rates
from gradlab.analysis.claims.power import claim_levels, holm_levels
from gradlab.analysis.measured import Measured
from gradlab.analysis.rules import ALPHA, Median, Paired, Proportion, Rule, one_arm, pooled_arms, two_arms
from gradlab.analysis.rules.base import ANYTIME, ON_RANKS, STAKES, _scores, planned_looks, share_evidence
from gradlab.analysis.rules.component import Component
from gradlab.analysis.rules.prediction import predict_seed
from gradlab.analysis.sample import Sample, as_first_planned, sample_of
from gradlab.spec.metric import Metric, infer

SEEDS = (3, 5, 10, 30)
PREDICTED = (3, 5, 10, 30, 100)
LOOKS = 300
FAMILIES, CONCEDED, FAMILY_SEEDS = (1, 10, 30), (1, 5, 30), (3, 5, 10)
FAMILY_LOOKS = (3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 20, 30)
SYMMETRIC = ("normal", "log-normal loss", "t₂", "ties: accuracy of 100 rows")
"""Cases of one arm whose numbers do lie symmetrically around their center, on the metric's scale."""
WRONG, COVERED = 0.05, 0.95
"""What is promised."""
Numbers = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Numbers]
OUT = Path(__file__).parent.parent / "docs" / "error-rates.md"


@dataclass(frozen=True)
class Case:
    """A distribution of results over seeds."""

    name: str
    metric: Metric
    draw: Draw
    median: float
    step: float
    """An effect that people would see: added, or on logs multiplied by e^step."""
    second: Draw | None = None
    """Of the other arm, given the first's draws share nothing; None: the same distribution."""
    common: float = 0.0
    """Correlation of the arms."""
    resolution: float = 1e-9
    lost: float = 0.0
    """Share of seeds of the first arm that failed."""
    one: bool = True
    """Whether it is also a case of one arm against a bound."""


def _bimodal(share: float) -> Draw:
    def draw(rng: np.random.Generator, n: int) -> Numbers:
        return np.where(rng.random(n) < share, 0.1, rng.normal(0.97, 0.003, n))

    return draw


def _with(value: float, share: float) -> Draw:
    def draw(rng: np.random.Generator, n: int) -> Numbers:
        return np.where(rng.random(n) < share, value, rng.lognormal(0, 1, n))

    return draw


def _quantile(q: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(q))


def _beta_median(a: float, b: float) -> float:
    from scipy.special import betaincinv

    return float(betaincinv(a, b, 0.5))


ACCURACY, LOSS, SIZE, SCORE, UNKNOWN = map(infer, ("test_accuracy", "final_loss", "grad_l2", "score", "thing"))
CASES = (
    Case("normal", SCORE, lambda rng, n: rng.normal(0, 1, n), 0.0, 2.0),
    Case("normal, arms correlated 0.95", SCORE, lambda rng, n: rng.normal(0, 1, n), 0.0, 0.6, common=0.95, one=False),
    Case("normal, spreads 1:20", SCORE, lambda rng, n: rng.normal(0, 1, n), 0.0, 40.0,
         second=lambda rng, n: rng.normal(0, 20, n), one=False),
    Case("log-normal loss", LOSS, lambda rng, n: rng.lognormal(0, 1, n), 1.0, 2.0),
    Case("log-normal of unknown name", UNKNOWN, lambda rng, n: rng.lognormal(0, 1, n), 1.0, 4.0),
    Case("t₂", UNKNOWN, lambda rng, n: rng.standard_t(2, n), 0.0, 3.0),
    Case("skewed accuracy", ACCURACY, lambda rng, n: rng.beta(20, 1.5, n), _beta_median(20, 1.5), 0.06),
    Case("accuracy, 30 % collapsed", ACCURACY, _bimodal(0.3), 0.97 + 0.003 * _quantile(0.2 / 0.7), 0.2),
    Case("accuracy, 45 % collapsed", ACCURACY, _bimodal(0.45), 0.97 + 0.003 * _quantile(0.05 / 0.55), 0.2),
    Case("ties: accuracy of 100 rows", ACCURACY, lambda rng, n: rng.binomial(100, 0.97, n) / 100, 0.97, 0.06,
         resolution=0.01),
    Case("ties: nearly all equal", ACCURACY, lambda rng, n: np.round(100 * rng.normal(0.97, 0.004, n)) / 100, 0.97,
         0.03, resolution=0.01),
    Case("30 % exact zeros", SIZE, _with(0.0, 0.3), math.exp(_quantile(0.2 / 0.7)), 2.0),
    Case("loss, 30 % diverged", LOSS, _with(math.nan, 0.3), math.exp(_quantile(0.5 / 0.7)), 2.0),
    Case("unknown name, 20 % NaN", UNKNOWN, _with(math.nan, 0.2), 1.0, 4.0),
    Case("normal, 20 % of one arm failed", SCORE, lambda rng, n: rng.normal(0, 1, n), 0.0, 2.0, lost=0.2),
)  # fmt: skip
COLLAPSING = tuple(
    Case(f"accuracy, {share} % collapsed", ACCURACY, _bimodal(share / 100), 0.0, 0.0) for share in (10, 25)
)
"""Rare collapses, which few seeds miss: for the interval of one more seed."""


@dataclass(frozen=True)
class Rates:
    """Of one case at one number of seeds."""

    wrong: float
    covered: float
    power: float


def sample(case: Case, values: Numbers, rng: np.random.Generator | None = None) -> Sample:
    """Values by seed; with a generator some seeds fail."""
    gone = np.zeros(len(values), bool) if rng is None else rng.random(len(values)) < case.lost
    statuses = {seed: "failed" if lost else "done" for seed, lost in enumerate(gone)}
    there: dict[int, Any] = {seed: float(v) for seed, v in enumerate(values) if not gone[seed]}
    return sample_of(case.metric, range(len(values)), there, statuses)


def settled(rule: Rule, bound: float, level: float = ALPHA) -> bool:
    """Whether the side of a bound is settled."""
    return 2 * min(rule.p_above(bound), rule.p_below(bound)) <= level


def _moved(case: Case, values: Numbers, step: float) -> Numbers:
    return values * math.exp(step) if case.metric.on_logs else values + step


def _pair(case: Case, rng: np.random.Generator, n: int) -> tuple[Numbers, Numbers]:
    first, second = case.draw(rng, n), (case.second or case.draw)(rng, n)
    if case.common:
        shared = rng.normal(0, 1, n) * math.sqrt(case.common)
        first, second = (shared + math.sqrt(1 - case.common) * arm for arm in (first, second))
    return first, second


def one_arm_rates(case: Case, n: int, draws: int, rng: np.random.Generator) -> Rates:
    """One arm against its own median, and against a bound one step away."""
    wrong = covered = power = 0
    for _ in range(draws):
        rule = one_arm(case.metric, sample(case, case.draw(rng, n), rng))
        assert rule is not None
        e = rule.estimate
        wrong += settled(rule, case.median)
        covered += (e.low or 0.0) <= case.median <= math.inf if e.high is None else e.low <= case.median <= e.high  # type: ignore[operator]
        far = case.median * math.exp(case.step) if case.metric.on_logs else case.median + case.step
        power += 2 * rule.p_below(far) <= ALPHA
    return Rates(wrong / draws, covered / draws, power / draws)


def two_arm_rates(case: Case, n: int, draws: int, rng: np.random.Generator) -> Rates:
    """Two arms that do not differ, and two that differ by one step."""
    wrong = covered = power = 0
    for _ in range(draws):
        first, second = _pair(case, rng, n)
        same = two_arms(case.metric, sample(case, first, rng), sample(case, second), resolution=case.resolution)
        moved = _moved(case, second, case.step)
        apart = two_arms(case.metric, sample(case, moved), sample(case, first, rng), resolution=case.resolution)
        assert same is not None
        assert apart is not None
        wrong += settled(same, same.nothing)
        truth = math.exp(case.step) if case.metric.on_logs else case.step
        e = apart.estimate
        covered += e.low <= truth <= e.high  # type: ignore[operator]
        power += 2 * apart.p_above(apart.nothing) <= ALPHA
    return Rates(wrong / draws, covered / draws, power / draws)


def share_rates(share: float, n: int, draws: int, rng: np.random.Generator) -> Rates:
    """k of n against the true share, and against one that is 0.4 away."""
    wrong = covered = power = 0
    for _ in range(draws):
        rule = Proportion(int(rng.binomial(n, share)), n)
        e = rule.estimate
        wrong += settled(rule, share)
        covered += e.low <= share <= e.high  # type: ignore[operator]
        power += 2 * rule.p_below(min(share + 0.4, 1.0)) <= ALPHA
    return Rates(wrong / draws, covered / draws, power / draws)


def first_settled(whole: Rule, bound: float, looks: Sequence[int], *, above: bool = False) -> int | None:
    """The first of these numbers of seeds at which the side of the bound (`above`: only that side) is settled."""
    assert isinstance(whole, Median | Paired)
    may_settle = _may_settle(whole, bound) if isinstance(whole, Paired) else np.ones(whole.n, bool)
    for n in looks:
        if may_settle[n - 1]:
            rule = replace(whole, low=whole.low[:n], high=whole.high[:n])
            p = rule.p_above(bound) if above else min(rule.p_above(bound), rule.p_below(bound))
            if 2 * p <= ALPHA:
                return n
    return None


def _may_settle(rule: Paired, bound: float) -> NDArray[np.bool_]:
    """After each seed, whether the side of a bound can be settled: evidence of all first seeds in one pass, so that the
    rule itself is asked only where it matters.
    """
    at = math.log(bound) if rule.logs else bound
    if any(2 * look.p(at, sign) <= ALPHA for look in planned_looks(rule.low, rule.resolution) for sign in (1, -1)):
        return np.ones(rule.n, bool)
    values = np.array(rule.low) - at
    tossed = np.abs(values) > rule.resolution / 2
    stakes = STAKES[:, None] * _scores(np.abs(values))
    found = np.zeros(rule.n, bool)
    for sign in (1, -1):
        above = sign * values > 0
        won = np.cumsum(np.where(tossed, math.log(2) - np.log1p(np.exp(np.where(above, -2.0, 2.0) * stakes)), 0.0), 1)
        mixed = np.logaddexp.reduce(won, 0) - math.log(len(STAKES))
        tosses = zip(np.cumsum(above & tossed).tolist(), np.cumsum(tossed).tolist(), strict=True)
        toss = np.array([share_evidence(count, n, 0.5) for count, n in tosses])
        evidence = np.logaddexp(math.log(ON_RANKS) + mixed, math.log(1 - ON_RANKS) + toss)
        found |= evidence >= math.log(2 / (ANYTIME * ALPHA)) - 1e-6
    return found


def any_look(case: Case, draws: int, rng: np.random.Generator, *, two: bool) -> float:
    """Share of runs in which a difference that is not there is settled at any of 300 looks, seed by seed."""
    wrong = 0
    for _ in range(draws):
        first, second = (sample(case, arm) for arm in _pair(case, rng, LOOKS))
        pairs = two_arms(case.metric, first, second, resolution=case.resolution) if two else None
        whole, bound = (pairs, pairs.nothing) if pairs else (Median.of(first, case.metric.bounds), case.median)
        wrong += first_settled(whole, bound, range(3, LOOKS + 1)) is not None
    return wrong / draws


def follow_advice(draws: int, rng: np.random.Generator) -> float:
    """Share of runs wrongly settled by somebody who adds the fewest seeds that are asked for until 300 are spent."""
    wrong = 0
    for _ in range(draws):
        values, n = rng.normal(0, 1, LOOKS), 5
        while n <= LOOKS:
            rule = two_arms(SCORE, sample(CASES[0], values[:n]), sample(CASES[0], np.zeros(n)))
            assert rule is not None
            if settled(rule, 0.0):
                wrong += 1
                break
            advice = rule.seeds_for(0.0, ALPHA)
            n = LOOKS + 1 if advice is None else advice.fewest
    return wrong / draws


def holm(draws: int, rng: np.random.Generator, m: int = 50, n: int = 10) -> float:
    """Share of studies with any wrong verdict, of m ratios that lie exactly on the edge of what is claimed."""
    wrong = 0
    for _ in range(draws):
        rules = []
        for _ in range(m):
            found = two_arms(LOSS, sample(CASES[3], rng.lognormal(math.log(4), 0.1, n)), sample(CASES[3], np.ones(n)))
            assert found is not None
            rules.append(found)
        tails = [min(rule.p_inside(4.0, 6.25), rule.p_outside(4.0, 6.25)) for rule in rules]
        levels = holm_levels([2 * tail for tail in tails])
        wrong += any(2 * rule.p_inside(4.0, 6.25) <= level for rule, level in zip(rules, levels, strict=True))
    return wrong / draws


def effects(
    looks: Sequence[int], draws: int, rng: np.random.Generator, size: float, noise: Draw = CASES[0].draw
) -> float:
    """Share of studies in which, at any of these looks, an axis of 3 levels wrongly moves more than one of 12."""
    wrong = 0
    one, two = (_levels(levels, size) for levels in (3, 12))
    for _ in range(draws):
        cells = one[:, None] + two[None, :] + noise(rng, max(looks) * 36).reshape(-1, 3, 12)
        wrong += any(settled(Component(cells[:n].mean(2), cells[:n].mean(1)), 0.0) for n in looks)
    return wrong / draws


def _collapsing_pairs(share: float) -> Callable[[np.random.Generator, int], Paired]:
    """Two equal arms of n networks each, of which this share collapses."""
    case = Case("", ACCURACY, _bimodal(share), 0.0, 0.0, resolution=1e-4)

    def draw(rng: np.random.Generator, n: int) -> Paired:
        found = two_arms(ACCURACY, *(sample(case, arm) for arm in _pair(case, rng, n)), resolution=case.resolution)
        assert found is not None
        return found

    return draw


def _exclusive_pairs(rng: np.random.Generator, n: int) -> Paired:
    """Two equal arms of which always exactly one collapses, either as often."""
    first = rng.random(n) < 0.5
    arms = (np.where(fails, 0.1, rng.normal(0.97, 0.003, n)) for fails in (first, ~first))
    found = two_arms(ACCURACY, *(sample(COLLAPSING[0], arm) for arm in arms), resolution=1e-4)
    assert found is not None
    return found


def family(
    claims: int, looks: Sequence[int], draw: Callable[[np.random.Generator, int], Paired], draws: int,
    rng: np.random.Generator,
) -> float:  # fmt: skip
    """Share of studies with any wrong verdict, at any of these looks, of so many claims about equal arms."""
    wrong = 0
    for _ in range(draws):
        rules = [draw(rng, max(looks)) for _ in range(claims)]
        for n in looks:
            seen = [replace(rule, low=rule.low[:n], high=rule.high[:n]) for rule in rules]
            strengths = [2 * min(rule.p_above(0.0), rule.p_below(0.0)) for rule in seen]
            levels = claim_levels(strengths, [False] * claims)
            if any(p <= level.claim for p, level in zip(strengths, levels, strict=True)):
                wrong += 1
                break
    return wrong / draws


def primary_family(others: int, n: int, draws: int, rng: np.random.Generator) -> float:
    """Share of studies with any wrong verdict: a primary claim that holds, so that all of α is handed on."""
    wrong = 0
    for _ in range(draws):
        p = [0.0, *(2 * min(r.p_above(0), r.p_below(0)) for r in (_normal_pairs(0.0, rng, n) for _ in range(others)))]
        levels = claim_levels(p, [True] + [False] * others)
        wrong += any(own <= level.claim for own, level in zip(p[1:], levels[1:], strict=True))
    return wrong / draws


def _normal_pairs(effect: float, rng: np.random.Generator, n: int) -> Paired:
    found = two_arms(SCORE, sample(CASES[0], rng.normal(effect, 1, n)), sample(CASES[0], np.zeros(n)), resolution=1e-9)
    assert found is not None
    return found


def added_seeds(where: str, most: int, draws: int, rng: np.random.Generator) -> float:
    """Share of runs wrongly settled by somebody who adds seeds with smaller, larger or middling numbers one by one."""
    wrong = 0
    for _ in range(draws):
        start = {"front": 999, "middle": 2001, "end": 3001}[where]
        later = [start - i if where == "front" else start + i for i in range(most)]
        seen = [1000, 2000, 3000, *later]
        values = dict(zip(seen, rng.normal(0, 1, len(seen)), strict=True))
        # the ledger knows in which order they came, whatever their numbers: later seeds change no earlier place
        orders = [as_first_planned(sorted(seen[:n]), seen) for n in range(3, most + 1)]
        assert all(longer[: len(order)] == order for order, longer in pairwise(orders))
        ends = {seed: (values[seed], values[seed]) for seed in orders[-1]}
        rule = two_arms(SCORE, Sample(ends), Sample(dict.fromkeys(ends, (0.0, 0.0))), resolution=1e-9)
        assert rule is not None
        wrong += first_settled(rule, 0.0, range(3, most + 1)) is not None
    return wrong / draws


def pooled_cells(n: int, draws: int, rng: np.random.Generator) -> float:
    """Share of studies that settle anything of two equal arms pooled over four cells, one of which mostly diverges."""
    wrong = 0
    for _ in range(draws):
        cells = []
        for diverging in (0.0, 0.0, 0.2, 0.9):
            case = Case("", LOSS, _with(math.nan, diverging), 1.0, 1.0)
            cells.append((sample(case, case.draw(rng, n)), sample(case, case.draw(rng, n))))
        rule = pooled_arms(LOSS, cells)
        assert rule is not None
        wrong += settled(rule, 1.0) or 2 * rule.p_inside(0.99, 1.01) <= ALPHA
    return wrong / draws


def declared(case: Case, n: int, draws: int, rng: np.random.Generator) -> tuple[float, float]:
    """One arm declared symmetric: how often it is wrong on its median, and how often a step away is settled."""
    wrong = power = 0
    for _ in range(draws):
        rule = one_arm(case.metric, sample(case, case.draw(rng, n)), symmetric=True, resolution=case.resolution)
        assert rule is not None
        wrong += settled(rule, case.median)
        far = case.median * math.exp(case.step) if case.metric.on_logs else case.median + case.step
        power += 2 * rule.p_below(far) <= ALPHA
    return wrong / draws, power / draws


def seeds_for_power(effect: float, draws: int, rng: np.random.Generator, most: int = 160) -> tuple[int, float]:
    """Seeds by which an effect of so many standard deviations is settled in 80 % of all runs, and on average."""
    taken = []
    for _ in range(draws):
        whole = _normal_pairs(effect, rng, most)
        taken.append(first_settled(whole, 0.0, range(5, most + 1), above=True) or most)
    return int(np.quantile(taken, 0.8, method="higher")), float(np.mean(taken))


def seeds_for_t_test(effect: float) -> int:
    """Seeds that a t-test whose number of seeds is fixed beforehand needs for 80 %."""
    from scipy.stats import nct, t

    n = 2
    while float(nct.sf(t.isf(ALPHA / 2, n - 1), n - 1, effect * math.sqrt(n))) < 0.8:
        n += 1
    return n


def _levels(count: int, variance: float) -> Numbers:
    levels = np.linspace(-1, 1, count)
    return levels / math.sqrt(float(np.mean(levels**2))) * math.sqrt(variance)


def best_of_many(n: int, draws: int, rng: np.random.Generator, groups: int = 24) -> float:
    """Share of sweeps of equal groups in which the best is shown to be better than any other."""
    wrong, pairs = 0, groups * (groups - 1) // 2
    for _ in range(draws):
        table = rng.normal(0, 1, (groups, n))
        order = np.argsort(np.median(table, axis=1))
        best = sample(CASES[0], table[order[-1]])
        rules = [two_arms(SCORE, best, sample(CASES[0], table[other])) for other in order[:-1]]
        wrong += any(rule is not None and 2 * rule.p_above(0.0) <= ALPHA / pairs for rule in rules)
    return wrong / draws


def new_seed_rate(case: Case, n: int, draws: int, rng: np.random.Generator) -> float:
    """How often one more seed lies in the 95 % prediction interval of n; one that diverged lies at its end.

    Where too few seeds have a number there is no interval, and nothing is excluded.
    """
    inside = 0
    for _ in range(draws):
        values = case.draw(rng, n + 1)
        found = predict_seed(case.metric, sample(case, values[:n]))
        ((low, high),) = sample(case, values[n:]).ends.values()
        inside += found is None or (found.low <= low and high <= found.high)
    return inside / draws


@dataclass(frozen=True)
class Contrast:
    """Two groups of a kept run that differ in the skip only, seed by seed."""

    differences: Numbers
    before: Numbers
    """The same of the loss before training: log ratios."""

    @property
    def explained(self) -> float:
        """R², the share of the variance that the losses before training explain."""
        return float(np.corrcoef(self.differences, self.before)[0, 1] ** 2)

    @property
    def adjusted(self) -> Numbers:
        """Differences less what the losses before training explain, by a slope that earlier seeds alone decide."""
        before, found = self.before - self.before.mean(), self.differences.copy()
        for seed in range(4, len(found)):
            slope = np.polyfit(self.before[:seed], self.differences[:seed], 1)[0]
            found[seed] -= slope * before[seed]
        return found


def contrasts(measured: Measured, name: str) -> Iterator[Contrast]:
    """Every two groups that differ in the skip only, of which all seeds have numbers."""
    metric = measured.metric(name)
    for pair in combinations(measured.plan.groups, 2):
        one, two = (planned.group.settings for planned in pair)
        if [path for path in one if one[path] != two.get(path)] != ["model.skip"]:
            continue
        ends, starts = (
            [measured.sample(each, planned.group.name).known for planned in pair] for each in (name, "initial_loss")
        )
        numbers = np.array([*ends, *starts]) if len({*map(len, ends), *map(len, starts)}) == 1 else np.zeros((4, 1))
        if numbers.shape[1] < 10 or not (np.isfinite(numbers).all() and (numbers > 0).all()):
            continue
        first, second, *_ = np.log(numbers) if metric.on_logs else numbers
        before = np.log(numbers[2] / numbers[3])
        if np.std(first - second) > 0 and np.std(before) > 0:
            yield Contrast(first - second, before)


def conceded(draws: int, rng: np.random.Generator) -> list[str]:
    """Where the promise is not kept: differences of two values only, which the t-test of 5 pairs takes for normal."""
    lines = [
        "",
        "## Conceded",
        "",
        "Any wrong verdict, %, if always exactly one of two equal arms fails, either as often:",
    ]
    lines += [f"{draws:,} draws of one claim, {max(draws // 5, 200):,} of 5, {max(draws // 30, 200):,} of 30.", ""]
    lines += [f"| | {' | '.join(_claims(m) for m in CONCEDED)} |", "| --- " * (len(CONCEDED) + 1) + "|"]
    for name, looks in (*((f"n = {n}", (n,)) for n in FAMILY_SEEDS), ("any look from 3 to 30", FAMILY_LOOKS)):
        rates = [family(m, looks, _exclusive_pairs, max(draws // m, 200), rng) for m in CONCEDED]
        lines.append(f"| {name} | {' | '.join(map(_percent, rates))} |")
    return lines


def control_variates() -> list[str]:
    """What the loss before training would add, in the results that are kept in docs/results."""
    lines = ["", "## Control variates", ""]
    lines += [
        "Of every two groups of a run in [results](results/README.md) that differ in the skip only: how much of their"
    ]
    lines += [
        "differences the losses before training explain (R²; noise alone 0.11 with 10 seeds), and how many are settled"
    ]
    lines += ["as they are and if that is taken out, by a slope that earlier seeds decide.", ""]
    lines += ["| | pairs | R², median | settled as they are | settled if adjusted |", "| --- " * 5 + "|"]
    for folder in sorted((OUT.parent / "results").glob("*/run")):
        measured = gradlab.open_run(folder).measured
        for name in ("final_loss", "test_accuracy"):
            found = list(contrasts(measured, name)) if {name, "initial_loss"} <= {*measured.metrics} else []
            if found:
                counts = [
                    sum(settled(Paired(tuple(values), tuple(values)), 0.0) for values in each)
                    for each in ([c.differences for c in found], [c.adjusted for c in found])
                ]
                explained = float(np.median([contrast.explained for contrast in found]))
                what = f"{folder.parent.name}, {measured.metric(name).label}"
                lines.append(f"| {what} | {len(found)} | {explained:.2f} | {counts[0]} | {counts[1]} |")
    return lines


def _claims(count: int) -> str:
    return f"{count} claim{'s' * (count > 1)}"


def _percent(rate: float) -> str:
    return f"{100 * rate:.1f}"


def tables(draws: int, seed: int = 0) -> tuple[list[str], list[str]]:
    """The document, line by line, and what is not kept."""
    broken: list[str] = []

    def cells(name: str, rates: list[Rates]) -> str:
        for n, rate in zip(SEEDS, rates, strict=True):
            slack = 3 * math.sqrt(0.06 / draws)
            if rate.wrong > WRONG + slack or rate.covered < COVERED - slack:
                broken.append(f"{name}, n = {n}: {rate}")
        told = [f"{_percent(r.wrong)} / {_percent(r.covered)} / {100 * r.power:.0f}" for r in rates]
        return f"| {name} | {' | '.join(told)} |"

    rng = np.random.default_rng(seed)
    head = [f"| | {' | '.join(f'n = {n}' for n in SEEDS)} |", "| --- " * (len(SEEDS) + 1) + "|"]
    lines = ["", "## Two arms, paired over seeds", "", *head]
    lines += [cells(case.name, [two_arm_rates(case, n, draws, rng) for n in SEEDS]) for case in CASES]
    lines += ["", "## One arm against a bound", "", *head]
    lines += [cells(case.name, [one_arm_rates(case, n, draws, rng) for n in SEEDS]) for case in CASES if case.one]
    lines += [
        cells(f"share of networks, {share:.0%}", [share_rates(share, n, draws, rng) for n in SEEDS])
        for share in (0.05, 0.3, 0.5)
    ]
    lines += ["", "## One more seed: coverage of its 95 % prediction interval, %", ""]
    lines += [f"| | {' | '.join(f'n = {n}' for n in PREDICTED)} |", "| --- " * (len(PREDICTED) + 1) + "|"]
    for case in (*CASES, *COLLAPSING):
        if case.one and not case.lost:
            rates = [new_seed_rate(case, n, draws, rng) for n in PREDICTED]
            lines.append(f"| {case.name} | {' | '.join(map(_percent, rates))} |")
            kept = case in COLLAPSING or case.name in ("normal", "log-normal loss")
            if kept and min(rates) < 0.95 - 3 * math.sqrt(0.05 / draws):
                broken.append(f"{case.name}, one more seed: {rates}")
    lines += ["", "## One arm whose numbers are declared symmetric (`assume: symmetric`): wrong / power, %", ""]
    lines += head
    for case in CASES:
        if case.name in SYMMETRIC:
            pairs = [declared(case, n, draws, rng) for n in SEEDS]
            lines.append(f"| {case.name} | {' | '.join(f'{_percent(w)} / {100 * p:.0f}' for w, p in pairs)} |")
            if max(w for w, _ in pairs) > WRONG + 3 * math.sqrt(0.06 / draws):
                broken.append(f"{case.name}, declared symmetric: {pairs}")
    lines += ["", "## Families: any wrong verdict among so many claims about equal arms, %", ""]
    lines += [f"{draws:,} draws of one claim, {max(draws // 10, 200):,} of several; of any look 200.", ""]
    lines += [f"| | {' | '.join(_claims(m) for m in FAMILIES)} |", "| --- " * (len(FAMILIES) + 1) + "|"]
    for name, rates in _families(draws, rng):
        lines.append(f"| {name} | {' | '.join(map(_percent, rates))} |")
        if max(rates) > WRONG + 3 * math.sqrt(0.06 / 200):
            broken.append(f"{name}: {rates}")
    lines += _power_lines(max(draws // 2, 100), rng)
    fewer = max(draws // 2, 100)
    lines += ["", "## Together and again", "", f"{fewer:,} draws each.", "", "| | wrong, % |", "| --- | --- |"]
    for name, rate in _together(fewer, rng):
        lines.append(f"| {name} | {_percent(rate)} |")
        if rate > WRONG + 3 * math.sqrt(0.06 / fewer):
            broken.append(f"{name}: {rate}")
    settling, lost = settling_rates.section(max(draws // 10, 20), seeds_for_t_test)
    kept = conceded(draws, np.random.default_rng([seed, 1]))  # what is conceded comes first, beside the promise
    return [*kept, *lines, *settling, *control_variates()], broken + lost


def _together(draws: int, rng: np.random.Generator) -> Iterator[tuple[str, float]]:
    looked = [case for case in CASES if case.name in ("normal", "t₂", "skewed accuracy", "accuracy, 45 % collapsed")]
    for case in looked:
        yield f"two arms, {case.name}: any of {LOOKS} looks", any_look(case, draws, rng, two=True)
    for case in looked[1:3]:
        yield f"one arm, {case.name}: any of {LOOKS} looks", any_look(case, draws, rng, two=False)
    yield f"adding seeds as advised, up to {LOOKS}", follow_advice(draws, rng)
    yield "50 claims on the edge of their band, any wrong (Holm)", holm(draws, rng)
    for where in ("front", "middle", "end"):
        yield f"seeds added one by one, numbered at the {where}, up to 50", added_seeds(where, 50, draws, rng)
    yield f"seeds added one by one, numbered at the front, up to {LOOKS}", added_seeds("front", LOOKS, draws, rng)
    for n in (5, 10, 30):
        yield f"two equal arms pooled over cells of which some diverge, n = {n}", pooled_cells(n, draws, rng)
    yield "9 claims about nothing behind a primary claim that holds, n = 10", primary_family(9, 10, draws, rng)
    looks = (5, 6, 8, 10, 15, 20, 30, 40)
    for name, noise in (("normal", CASES[0].draw), ("t₃", lambda rng, n: rng.standard_t(3, n))):
        for size, what in ((0.0, "effects of nothing"), (1.0, "equal effects")):
            told = f"{what}, 3 against 12 levels, {name} noise: any of {len(looks)} looks up to 40"
            yield told, effects(looks, draws, rng, size, noise)
    for n in (5, 10):
        yield f"best of 24 equal groups better than any other, n = {n}", best_of_many(n, draws, rng)


def _families(draws: int, rng: np.random.Generator) -> Iterator[tuple[str, list[float]]]:
    """Any wrong verdict in a study of so many claims about two equal arms, by number of seeds and of claims."""
    for share in (0.2, 0.3, 0.45):
        for n in FAMILY_SEEDS:
            pairs = _collapsing_pairs(share)
            rates = [family(claims, (n,), pairs, max(draws // claims, 200), rng) for claims in FAMILIES]
            yield f"{100 * share:.0f} % collapse, n = {n}", rates
    rates = [family(m, FAMILY_LOOKS, _collapsing_pairs(0.4), 200, rng) for m in FAMILIES]
    yield "40 % collapse, any look from 3 to 30", rates


def _power_lines(draws: int, rng: np.random.Generator) -> list[str]:
    lines = ["", "## Seeds that settle a paired effect in 80 % of all runs, looking after every seed", ""]
    lines += [f"{draws:,} draws each.", ""]
    lines += ["| effect, in standard deviations | here | on average | t-test with its seeds fixed beforehand |"]
    lines += ["| --- " * 4 + "|"]
    for effect in (0.5, 0.8, 1.0, 1.5, 2.0):
        most, mean = seeds_for_power(effect, draws, rng)
        lines.append(f"| {effect} | {most} | {mean:.1f} | {seeds_for_t_test(effect)} |")
    return lines


INTRODUCTION = """# Error rates of the verdicts

Made by `python scripts/make_error_rates.py`: every number is simulated with the rules that decide, {draws:,} draws for
each unless its section says otherwise, with arms and bounds as a study has them. In each cell, in %:

- **wrong**: how often a verdict is settled where the truth lies exactly on the bound, or where the arms do not differ
  (promised: at most 5; the one case that is conceded comes first);
- **coverage** of the 95 % interval: of the median of one arm, of the shift between two;
- **power**: how often an effect that people would see is settled (the column of `step` in the script).

The interval in which a published number is called consistent (one more seed) is distribution-free from 39 seeds on;
from 10 to 38 it assumes normal numbers, or logarithms of them, and covers less of a skewed or heavy-tailed arm. With
fewer than 10 it is open toward networks that collapse: whatever the distribution, p (1 − p)ⁿ of the new seeds end where
none of n did, up to 10.5 % with 3 seeds, 6.7 % with 5 and 3.5 % with 10.

The rules are valid after any number of looks, so at one look they are wrong more rarely than in 5 % of the cases. What
they assume, and what that costs: [honest.md](honest.md#the-rules-that-decide).
"""


def main() -> int:
    """Write the document, or check the rates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fewer draws, nothing written")
    parser.add_argument("--only", choices=["settling"], help="write this section again, leave the others")
    parser.add_argument("--draws", type=int, default=1000)
    given = parser.parse_args()
    draws = min(given.draws, 300) if given.check else given.draws
    if given.only:
        lines, broken = settling_rates.section(max(draws // 10, 20), seeds_for_t_test)
        before, heading, after = OUT.read_text().partition(lines[1])
        after = after[after.find("\n## ") :] if heading else ""
        lines = [before.rstrip(), *lines, after.rstrip("\n")]
    else:
        lines, broken = tables(draws)
        lines = [INTRODUCTION.format(draws=draws).rstrip(), *lines]
    for line in broken:
        print(f"not kept: {line}", file=sys.stderr)
    if not given.check:
        OUT.write_text("\n".join([*lines, ""]))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
