"""What a tuning found: the metric of every value that was tried, each arm's best, and what that cost.

A value's score is the median of the metric over the tuning seeds; of an even number of seeds, the worse of the two in
the middle. A diverged trial counts as worst. The best score wins. Scores within 1 % of it are ties, and go to the best
mean over seeds, then to the value that is listed first: where no median learns, a value at which some seeds do is
better than one at which none does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gradlab.analysis.measured import Measured
from gradlab.plans.plan import Plan
from gradlab.plans.tuning import Candidate, TuningPlan, judge_at
from gradlab.runs.store.records import Records
from gradlab.spec.metric import Metric

TIE = 0.01
"""Medians that differ by less than this share of the best are ties."""


@dataclass(frozen=True)
class Tried:
    """One value of one arm, on every tuning seed."""

    candidate: Candidate
    by_seed: Mapping[int, float | None]
    """Tuning seed -> the metric; ±inf, whichever is worst, of a diverged trial; None without a result."""
    diverged: int
    failed: int
    metric: Metric

    @cached_property
    def _ordered(self) -> list[float]:
        """Best first."""
        known = [value for value in self.by_seed.values() if value is not None]
        return sorted(known, reverse=self.metric.sign > 0)

    @property
    def complete(self) -> bool:
        """Whether every tuning seed has a result."""
        return None not in self.by_seed.values()

    @property
    def median(self) -> float | None:
        """The score; None without any result."""
        return self._ordered[len(self._ordered) // 2] if self._ordered else None

    @property
    def mean(self) -> float | None:
        """Over the seeds: not finite if one of them diverged; None without any result."""
        return sum(self._ordered) / len(self._ordered) if self._ordered else None

    @property
    def best(self) -> float | None:
        """The best seed."""
        return self._ordered[0] if self._ordered else None

    @property
    def worst(self) -> float | None:
        """The worst seed."""
        return self._ordered[-1] if self._ordered else None

    @property
    def hopeless(self) -> bool:
        """Whether most of its seeds diverged, so that its score is the worst there is."""
        return self.median is not None and math.isinf(self.median)


@dataclass(frozen=True)
class TuningCost:
    """What the tuning cost, beside all trials of the run."""

    trials: int
    seconds: float
    all_seconds: float
    """Wall time of all trials, added up."""

    @property
    def share(self) -> float | None:
        """Of the time of all trials; None before any ended."""
        return self.seconds / self.all_seconds if self.all_seconds else None


@dataclass(frozen=True)
class Tuning:
    """What became of a tuning, as far as it went."""

    plan: Plan
    """The plan of the study."""
    tried: tuple[Tried, ...]
    cost: TuningCost
    errors: Mapping[str, int]
    """Distinct errors of tuning trials, and how often each occurred."""

    @property
    def stage(self) -> TuningPlan:
        """What was tried, and what was chosen."""
        assert self.plan.tuning is not None
        return self.plan.tuning

    @property
    def metric(self) -> Metric:
        """What decides."""
        return self.stage.metric

    @property
    def complete(self) -> bool:
        """Whether every tuning trial has a result."""
        return all(tried.complete for tried in self.tried)

    @property
    def failed(self) -> int:
        """Tuning trials that ended in an error."""
        return sum(tried.failed for tried in self.tried)

    def of(self, arm: str) -> tuple[Tried, ...]:
        """What was tried of one arm, in the order of the values."""
        return tuple(tried for tried in self.tried if tried.candidate.arm == arm)

    def is_chosen(self, tried: Tried) -> bool:
        """Whether its arm is judged at this value."""
        return self.stage.chosen is not None and self.stage.chosen[tried.candidate.arm] == tried.candidate

    def edges(self, arm: str) -> tuple[str, ...]:
        """The tuned paths whose best value is the smallest or largest that was tried."""
        return self.stage.edges.get(arm, ())

    def rows(self) -> list[dict[str, Any]]:
        """One row per arm and value: the metric by seed, whether it is chosen, and whether that is at an edge."""
        return [
            {
                "arm": tried.candidate.arm,
                **{path: _plain(value) for path, value in tried.candidate.values.items()},
                "metric": self.metric.name,
                "median": tried.median,
                "mean": tried.mean,
                "best": tried.best,
                "worst": tried.worst,
                **{f"seed {seed}": value for seed, value in tried.by_seed.items()},
                "diverged": tried.diverged,
                "chosen": self.is_chosen(tried),
                "edge": self.is_chosen(tried) and bool(self.edges(tried.candidate.arm)),
            }
            for tried in self.tried
        ]


def tuning_of(plan: Any, records: Records) -> Tuning | None:
    """What the tuning of a plan found so far; None of a plan that tunes nothing."""
    if plan.tuning is None:
        return None
    measured = Measured(plan.tuning.plan, records)
    tried = tuple(_read(measured, candidate, plan.tuning.metric) for candidate in plan.tuning.candidates)
    wanted = {trial.id for trial in plan.all_trials}
    columns = (records.trials[name].to_pylist() for name in ("trial", "seconds"))
    seconds = {trial: took or 0.0 for trial, took in zip(*columns, strict=True) if trial in wanted}
    own = {trial.id for trial in plan.tuning.plan.trials}
    spent = sum(took for trial, took in seconds.items() if trial in own)
    cost = TuningCost(len(own), spent, sum(seconds.values()))
    return Tuning(plan, tried, cost, dict(measured.errors()))


def settle(plan: Plan, records: Records) -> Plan:
    """The plan at the values that its tuning trials choose; the pending plan while one of them has no result."""
    if plan.tuning is None:
        return plan
    found = tuning_of(plan, records)
    assert found is not None
    if not found.complete:
        return plan
    return judge_at(plan, choose(found))


def choose(tuning: Tuning) -> dict[str, Candidate]:
    """Arm -> its best candidate, by the rule above."""
    arms = dict.fromkeys(tried.candidate.arm for tried in tuning.tried)
    return {arm: _best(tuning.of(arm), tuning.metric.sign).candidate for arm in arms}


def _best(tried: Sequence[Tried], sign: int) -> Tried:
    """The best of one arm; `max` keeps the first of equals, which is listed first."""
    scores = [sign * (each.median or 0.0) for each in tried]
    best = max(scores)
    limit = best - TIE * abs(best) if math.isfinite(best) else best
    tied = [each for each, score in zip(tried, scores, strict=True) if score >= limit]
    return max(tied, key=lambda each: sign * (each.mean or 0.0))


def _read(measured: Measured, candidate: Candidate, metric: Metric) -> Tried:
    """One candidate's numbers: a trial that diverged has the worst there is, whatever it last measured."""
    statuses = {trial.seed: measured.status(trial) for trial in measured.by_group[candidate.name]}
    values = measured.values(metric.name, candidate.name)
    by_seed = {
        seed: _number(values.get(seed), statuses.get(seed), metric) for seed in measured.planned_seeds[candidate.name]
    }
    ended = list(statuses.values())
    return Tried(candidate, by_seed, ended.count("diverged"), ended.count("failed"), metric)


def _number(value: float | int | None, status: str | None, metric: Metric) -> float | None:
    if status is None or status == "failed":
        return None
    if status == "diverged" or value is None or math.isnan(value):
        return metric.worst
    return float(value)


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value
