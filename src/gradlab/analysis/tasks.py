"""Arms over several tasks: interquartile mean, probability of improvement, performance profiles.

Runs of a task are resampled within the task (stratified bootstrap), so that every task keeps its weight.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from gradlab.analysis.measured import Measured

Numbers = NDArray[np.float64]
TASK = "task"
"""The setting of a group that names its task."""
RESAMPLES = 1000
APART = 10.0
"""Medians of tasks this many times apart are not on one scale."""


@dataclass(frozen=True)
class OverTasks:
    """The numbers of every arm by task, those of failed runs left out."""

    metric: str
    sign: int
    scores: Mapping[str, tuple[Numbers, ...]]

    @cached_property
    def _draws(self) -> Mapping[str, Numbers]:
        """Arm -> interquartile means of resampled runs."""
        random = np.random.default_rng(0)
        found = {}
        for arm, tasks in self.scores.items():
            drawn = [task[random.integers(len(task), size=(RESAMPLES, len(task)))] for task in tasks]
            found[arm] = _middle_mean(np.concatenate(drawn, axis=1))
        return found

    def middle_mean(self, arm: str) -> tuple[float, float, float]:
        """Mean of the middle half of all runs, with its 95 % interval."""
        center = float(_middle_mean(np.concatenate(self.scores[arm])[None, :])[0])
        low, high = np.quantile(self._draws[arm], (0.025, 0.975))
        return center, float(low), float(high)

    def improvement(self, arm: str, other: str) -> tuple[float, float, float]:
        """Probability that a run of `arm` beats one of `other` on the same task, mean over tasks; 95 % interval."""
        random = np.random.default_rng(1)
        center, draws = [], np.zeros(RESAMPLES)
        for a, b in zip(self.scores[arm], self.scores[other], strict=True):
            wins = np.sign(self.sign * (a[:, None] - b[None, :])) / 2 + 0.5
            center.append(float(wins.mean()))
            rows = random.integers(len(a), size=(RESAMPLES, len(a)))
            columns = random.integers(len(b), size=(RESAMPLES, len(b)))
            count_a, count_b = (_counts(drawn, n) for drawn, n in ((rows, len(a)), (columns, len(b))))
            draws += ((count_a @ wins) * count_b).sum(1) / wins.size
        low, high = np.quantile(draws / len(center), (0.025, 0.975))
        return float(np.mean(center)), float(low), float(high)

    def profile(self, arm: str, levels: Numbers) -> Numbers:
        """Share of runs that are at least as good as each level, mean over tasks."""
        shares = [(self.sign * task[:, None] >= self.sign * levels[None, :]).mean(0) for task in self.scores[arm]]
        found: Numbers = np.mean(shares, axis=0)
        return found

    @property
    def one_scale(self) -> bool:
        """Whether the tasks look as if their numbers were on one scale."""
        medians = sorted(
            float(np.median(np.abs(np.concatenate(own)))) for own in zip(*self.scores.values(), strict=True)
        )
        return all(high <= APART * low for low, high in pairwise([m for m in medians if m > 0]))


def _middle_mean(rows: Numbers) -> Numbers:
    cut = rows.shape[1] // 4
    ends = [cut, rows.shape[1] - cut - 1]
    found: Numbers = np.partition(rows, ends, axis=1)[:, cut : rows.shape[1] - cut].mean(1)
    return found


def _counts(drawn: NDArray[np.int64], n: int) -> Numbers:
    """How often every run was drawn, by resample."""
    rows = len(drawn)
    places = drawn + n * np.arange(rows)[:, None]
    return np.bincount(places.ravel(), minlength=rows * n).reshape(rows, n).astype(float)


def over_tasks(measured: Measured, metric: str) -> OverTasks | None:
    """The arms of a result over its tasks; None if it has not several, or an arm has no number in one of them."""
    found: OverTasks | None = measured.remember(f"over tasks: {metric}", lambda own: _over_tasks(own, metric))
    return found


def _over_tasks(measured: Measured, metric: str) -> OverTasks | None:
    groups = [planned.group for planned in measured.plan.groups]
    arms = dict.fromkeys(group.settings.get("arm") for group in groups)
    tasks = dict.fromkeys(group.settings.get(TASK) for group in groups)
    names = {(group.settings.get("arm"), group.settings.get(TASK)): group.name for group in groups}
    if len(tasks) < 2 or None in tasks or len(names) < len(arms) * len(tasks):
        return None
    scores = {}
    for arm in arms:
        values = [measured.values(metric, names[arm, task]).values() for task in tasks]
        own = tuple(np.array([v for v in one if v is not None and np.isfinite(v)], float) for one in values)
        if not all(map(len, own)):
            return None
        scores[str(arm)] = own
    return OverTasks(metric, measured.metric(metric).sign or 1, scores)
