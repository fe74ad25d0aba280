"""Everything that was measured, asked by name: a metric, a group, and where it is taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gradlab.analysis.summary import Summary, summarise
from gradlab.execute.base import TrialResult
from gradlab.plan.plan import Plan
from gradlab.spec.study import At, Study

Key = tuple[int, int, str]


@dataclass(frozen=True)
class Profile:
    """A layer measure at one step in one group: values[seed, layer], NaN where it does not exist."""

    group: str
    measure: str
    step: int
    layers: NDArray[np.int64]
    values: NDArray[np.float64]


@dataclass(frozen=True)
class Measured:
    """A plan and the results that are there so far."""

    plan: Plan
    results: tuple[TrialResult, ...]

    @property
    def study(self) -> Study:
        """The study that was run."""
        return self.plan.resolved.study

    @cached_property
    def group_names(self) -> tuple[str, ...]:
        """Arms or grid points, in the study's order."""
        return tuple(planned.group.name for planned in self.plan.groups)

    @cached_property
    def by_group(self) -> Mapping[str, tuple[TrialResult, ...]]:
        """Results of each group, in the order of seeds."""
        return {name: tuple(r for r in self.results if r.trial.group == name) for name in self.group_names}

    @property
    def seeds_done(self) -> int:
        """Seeds of the group that has most results: fewer than planned in a run that was cut short."""
        return max(len(results) for results in self.by_group.values())

    def counts(self) -> dict[str, int]:
        """How many trials are done, diverged, failed; diverged ones have an outcome and count as done too."""
        statuses = [result.status for result in self.results]
        failed, diverged = statuses.count("failed"), statuses.count("diverged")
        return {"done": len(statuses) - failed, "failed": failed, "diverged": diverged}

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """Trial metrics that exist in at least one trial."""
        found: dict[str, None] = {}
        for result in self.results:
            for metric, value in result.outcome.metrics.items() if result.outcome else ():
                if value is not None:
                    found[metric] = None
        return tuple(found)

    @cached_property
    def measures(self) -> tuple[str, ...]:
        """Layer measures that were taken."""
        return tuple(dict.fromkeys(m for r in self.results if r.outcome for m in r.outcome.layers.measure))

    @cached_property
    def _layer_values(self) -> Mapping[str, Mapping[Key, float]]:
        """trial id -> (step, layer, measure) -> value."""
        found = {}
        for result in self.results:
            if result.outcome:
                table = result.outcome.layers
                keys = zip(table.step.tolist(), table.layer.tolist(), table.measure, strict=True)
                found[result.trial.id] = dict(zip(keys, table.value.tolist(), strict=True))
        return found

    def layer_count(self, group: str) -> int:
        """Weight matrices of a group's network."""
        for result in self.by_group[group]:
            if result.outcome and len(result.outcome.layers.layer):
                return int(result.outcome.layers.layer.max())
        return 0

    def step_number(self, group: str, step: int | str | None) -> int:
        """`start`, `end` (also the default: after the whole budget) or a number, as a number of steps."""
        if step in (None, "end"):
            return next(planned.cost.steps for planned in self.plan.groups if planned.group.name == group)
        return 0 if step == "start" else int(step)

    def values(self, metric: str, group: str, at: At | None = None) -> dict[int, float | int | None]:
        """Trial seed -> value of a trial metric, or of a layer measure at a layer and step."""
        at = at or At()
        results = self.by_group[group]
        if at.layer is None:
            return {r.trial.seed: r.outcome.metrics.get(metric) if r.outcome else None for r in results}
        step = self.step_number(group, at.step)
        layer = self.layer_count(group) if at.layer == "last" else int(at.layer)  # type: ignore[arg-type]
        key = (step, layer, metric)
        return {r.trial.seed: self._layer_values.get(r.trial.id, {}).get(key) for r in results}

    def summary(self, metric: str, group: str, at: At | None = None) -> Summary:
        """Summary over seeds."""
        return summarise(self.values(metric, group, at).values())

    def profile(self, measure: str, group: str, step: int | str | None = "end") -> Profile:
        """A layer measure at one step, seed by seed and layer by layer."""
        number = self.step_number(group, step)
        layers = range(1, self.layer_count(group) + 1)
        rows = [
            [self._layer_values[r.trial.id].get((number, layer, measure), np.nan) for layer in layers]
            for r in self.by_group[group]
            if r.outcome
        ]
        return Profile(group, measure, number, np.array(layers), np.array(rows, float).reshape(len(rows), len(layers)))

    def curve(self, metric: str, group: str) -> list[tuple[NDArray[np.int64], NDArray[np.float64]]]:
        """(steps, values) of a curve, one per trial that has it."""
        curves = [curve for r in self.by_group[group] if r.outcome for curve in r.outcome.curves]
        return [(curve.steps, curve.values) for curve in curves if curve.metric == metric]
