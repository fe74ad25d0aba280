"""Everything that was measured, asked by name: a metric, a group, and where it is taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.analysis.columns import Columns
from gradlab.analysis.estimate import Estimate
from gradlab.analysis.layer_index import LayerIndex
from gradlab.analysis.profile import Profile as Profile
from gradlab.analysis.profile import over_layers
from gradlab.analysis.rules import ALPHA, FLOAT
from gradlab.analysis.sample import Sample, divided, sample_of
from gradlab.analysis.summary import summarize
from gradlab.plans.choosing import choose_groups
from gradlab.plans.outline import Entry, Outline
from gradlab.probes.base import Probe
from gradlab.runs.store.records import Records, results_hash
from gradlab.runs.store.tables import COLUMNS
from gradlab.spec.claims import ClaimAt
from gradlab.spec.metric import FRACTION, Metric, Metrics
from gradlab.spec.naming import Names
from gradlab.spec.place import At
from gradlab.spec.question import Question
from gradlab.trials.recorder import FROM_CURVES, METRICS, OPTIONAL, rises
from gradlab.trials.setup import moments_of
from gradlab.trials.trial import TrialLabel

ANYWHERE = At()
DIVERGED = "diverged"
"""Whether a trial diverged, as a number of its own."""
Curves = Mapping[str, tuple[NDArray[np.int64], NDArray[np.float64]]]


@dataclass(frozen=True)
class Measured:
    """A plan and the results that are there so far. Only trials of the plan are seen, under the plan's names."""

    plan: Outline
    records: Records

    @property
    def study(self) -> Question:
        """The study that was run."""
        return self.plan.study

    @cached_property
    def _remembered(self) -> dict[str, Any]:
        return {}

    def remember(self, what: str, compute: Callable[[Measured], Any]) -> Any:
        """What `compute` makes of these results, computed once."""
        if what not in self._remembered:
            self._remembered[what] = compute(self)
        return self._remembered[what]

    @cached_property
    def group_names(self) -> tuple[str, ...]:
        """Arms or grid points, in the study's order."""
        return tuple(planned.group.name for planned in self.plan.groups)

    @cached_property
    def names(self) -> Names:
        """What people call groups, axes and levels."""
        conditions = [planned.group for planned in self.plan.groups]
        arms = self.study.arms is not None
        return Names(conditions, self.plan.catalog, arms=arms, labels=self.study.labels)

    def only(self, groups: Collection[str], labels: Mapping[str, str] | None = None) -> Measured:
        """The same results seen through a plan of some groups only, with further labels."""
        return Measured(choose_groups(self.plan, groups, labels or {}), self.records)

    @cached_property
    def entries(self) -> Mapping[str, Entry]:
        """What the plan knows of each group, by name."""
        return {planned.group.name: planned for planned in self.plan.groups}

    @cached_property
    def trials(self) -> tuple[TrialLabel, ...]:
        """The plan's trials that have a result, in the plan's order."""
        return tuple(trial for trial in self.plan.trials if trial.id in self._rows)

    @cached_property
    def by_group(self) -> Mapping[str, tuple[TrialLabel, ...]]:
        """The trials of each group that have a result, in the order of seeds."""
        found: dict[str, list[TrialLabel]] = {name: [] for name in self.group_names}
        for trial in self.trials:
            found[trial.group].append(trial)
        return {name: tuple(trials) for name, trials in found.items()}

    @cached_property
    def _rows(self) -> Mapping[str, int]:
        return {trial: row for row, trial in enumerate(self.records.trials["trial"].to_pylist())}

    @cached_property
    def _columns(self) -> Columns:
        return Columns(self.records.trials)

    def frame(self) -> Any:
        """The trials table of this plan, an Arrow table under the plan's names."""
        import pyarrow as pa

        table = self.records.trials.take(pa.array([self._rows[trial.id] for trial in self.trials], pa.int64()))
        table = table.set_column(1, "group", pa.array([trial.group for trial in self.trials], pa.string()))
        return table.set_column(2, "seed", pa.array([trial.seed for trial in self.trials], pa.int64()))

    def named(self, table: Any) -> Any:
        """Rows of this plan's trials in the plan's order and under its names; words as plain strings."""
        import pyarrow as pa

        column, planned = table["trial"].combine_chunks(), self.plan.trials
        codes = column.indices.to_numpy(zero_copy_only=False)
        pieces = []
        for trials in self._alike:
            place = np.array([trials.get(name, (-1, None))[0] for name in column.dictionary.to_pylist()], np.int64)
            rows = np.flatnonzero(place[codes] >= 0) if len(place) else np.empty(0, np.int64)
            rows = rows[np.argsort(place[codes[rows]], kind="stable")]
            piece = table.take(pa.array(rows))
            owners = [planned[index] for index in place[codes[rows]]] if len(rows) else []
            piece = piece.set_column(1, "group", pa.array([trial.group for trial in owners], pa.string()))
            piece = piece.set_column(2, "seed", pa.array([trial.seed for trial in owners], pa.int64()))
            pieces.append(piece)
        joined = pa.concat_tables([piece.cast(_plain_words(piece.schema)) for piece in pieces])
        return joined.combine_chunks()

    def stream(self, name: str) -> Iterator[Any]:
        """Yield `curves` or `layers` one chunk of the store at a time, each as `named` gives it."""
        for table in self.records.stream(name):
            if table.num_rows:
                yield self.named(table)

    @cached_property
    def _alike(self) -> list[dict[str, tuple[int, TrialLabel]]]:
        """Trial id -> (place in the plan, trial); further ones where groups of another name are the same trials."""
        found: list[dict[str, tuple[int, TrialLabel]]] = [{}]
        for index, trial in enumerate(self.plan.trials):
            level = next((known for known in found if trial.id not in known), None)
            if level is None:
                found.append(level := {})
            level[trial.id] = (index, trial)
        return found

    @property
    def hash(self) -> str:
        """Of all results of this plan, wall times aside."""
        return results_hash(self.frame())

    @property
    def seeds_done(self) -> int:
        """Seeds of the group that has most results: fewer than planned in a run that was cut short."""
        return max(len(trials) for trials in self.by_group.values())

    def status(self, trial: TrialLabel) -> str:
        """How a trial ended: done, diverged or failed."""
        return str(self._columns["status"][self._rows[trial.id]])

    def counts(self, group: str | None = None) -> dict[str, int]:
        """How many trials are done, diverged, failed; diverged ones have an outcome and count as done too."""
        trials = self.trials if group is None else self.by_group[group]
        statuses = [self.status(trial) for trial in trials]
        failed, diverged = statuses.count("failed"), statuses.count("diverged")
        return {"done": len(statuses) - failed, "failed": failed, "diverged": diverged}

    def errors(self) -> Counter[str]:
        """Distinct errors of failed trials, and how often each occurred."""
        found = (self._columns["error"][self._rows[trial.id]] for trial in self.trials)
        return Counter(error for error in found if error is not None)

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """Trial metrics that exist in at least one trial."""
        there = self.frame()
        names = [*METRICS, *(n for n in there.column_names if n not in METRICS and n not in COLUMNS)]
        return tuple(name for name in names if there[name].null_count < there.num_rows)

    @cached_property
    def _declared(self) -> Metrics:
        """What recorder and probes declare of their numbers."""
        catalog = self.plan.catalog
        probes = [catalog.get("probe", name) for name in catalog.names("probe")]
        measures = [metric for probe in probes if issubclass(probe, Probe) for metric in probe.metrics()]
        return Metrics({**METRICS, **OPTIONAL, **FROM_CURVES, **{metric.name: metric for metric in measures}})

    def metric(self, name: str) -> Metric:
        """What a metric or layer measure is: what is better, on which scale, of which kind.

        Of user code nobody has said which numbers are yes or no: those that are 0 or 1 in every trial of the study.
        """
        found = self._declared[name]
        return replace(found, kind="flag", scale="linear", bounds=FRACTION) if name in self._yes_or_no else found

    @cached_property
    def _yes_or_no(self) -> frozenset[str]:
        if not self.plan.own_code:
            return frozenset()
        columns = {name: {v for v in self._columns[name] if v is not None} for name in self.metrics}
        return frozenset(name for name, values in columns.items() if values == {0, 1})

    # ------------------------------------------------------------------ inside

    @cached_property
    def _layers(self) -> LayerIndex:
        return LayerIndex(self.records.layers(), self.plan)

    @cached_property
    def measures(self) -> tuple[str, ...]:
        """Layer measures that were taken."""
        return self._layers.measures

    def layer_count(self, group: str) -> int:
        """Weight matrices of a group's network; of somebody's own code, the modules that were looked into."""
        cost = self.entries[group].cost
        return cost.layers if cost is not None else self._layers.layer_count(self.entries[group].id)

    def moments(self, group: str) -> tuple[int, ...]:
        """The steps after which the inside was measured."""
        planned = self.entries[group]
        if planned.config is None or planned.cost is None or self._ends_anywhere(group):
            return self._layers.steps(planned.id)
        return tuple(moments_of(planned.config.measure, planned.cost.steps))

    def steps_per_epoch(self, group: str) -> int:
        """Updates in one pass over the training data; 1 where nobody knows: a curve is then over steps."""
        cost = self.entries[group].cost
        return max(cost.steps_per_epoch, 1) if cost is not None else 1

    def places(self, at: At, group: str) -> tuple[At, ...]:
        """One place per layer that `at` names; `all` stands for every layer of the group's network."""
        if not (isinstance(at, ClaimAt) and at.layer == "all"):
            return at.places()
        return tuple(At(step=at.step, layer=layer) for layer in range(1, self.layer_count(group) + 1))

    def _ends_anywhere(self, group: str) -> bool:
        """Whether each trial has an end of its own: in somebody's own code, and with early stopping."""
        planned = self.entries[group]
        return planned.cost is None or (planned.config is not None and planned.config.train.early_stopping is not None)

    def step_number(self, group: str, step: int | str | None, seed: int | None = None) -> int:
        """`start`, `end` (also the default: after the whole budget) or a number, as a number of steps.

        Code of somebody's own and trials with early stopping may end anywhere: start and end are then the first and
        the last step that were looked at, of the trial with this `seed` or of the longest.
        """
        if isinstance(step, int):
            return step
        cost = self.entries[group].cost
        if cost is not None and (step == "start" or not self._ends_anywhere(group)):
            return 0 if step == "start" else cost.steps
        moments = self._layers.steps(self.entries[group].id, seed)
        return (moments[0] if step == "start" else moments[-1]) if moments else 0

    def _inside(self, measure: str, group: str, step: int | str | None) -> dict[tuple[int, int], float]:
        """(seed, layer) -> value of a layer measure at a step, or at each trial's own start or end."""
        identity = self.entries[group].id
        if not self._ends_anywhere(group) or isinstance(step, int):
            return self._layers.values(measure, identity, self.step_number(group, step))
        found: dict[tuple[int, int], float] = {}
        for trial in self.by_group[group]:
            if self.entries[group].cost is not None and step != "start" and self.status(trial) == "diverged":
                continue  # a network that diverged was not looked at where it ended
            values = self._layers.values(measure, identity, self.step_number(group, step, trial.seed))
            found |= {key: value for key, value in values.items() if key[0] == trial.seed}
        return found

    def values(self, metric: str, group: str, at: At | None = None) -> dict[int, float | int | None]:
        """Trial seed -> value of a trial metric, or of a layer measure at one layer and step (see `places`)."""
        at = at or ANYWHERE
        trials = self.by_group[group]
        if at.layer is None and metric in FROM_CURVES:
            curves = self.curves_by_seed("loss", group)
            return {trial.seed: rises(curves[trial.seed][1]) if trial.seed in curves else None for trial in trials}
        if at.layer is None:
            column = self._columns.get(metric)
            return {trial.seed: None if column is None else column[self._rows[trial.id]] for trial in trials}
        found = self._inside(metric, group, at.step)
        if at.layer in ("smallest", "largest"):
            return over_layers(found, [trial.seed for trial in trials], min if at.layer == "smallest" else max)
        layer = self.layer_count(group) if at.layer == "last" else int(at.layer)  # type: ignore[arg-type]
        return {trial.seed: found.get((trial.seed, layer)) for trial in trials}

    @cached_property
    def planned_seeds(self) -> Mapping[str, tuple[int, ...]]:
        """The seeds that the plan has for each group, whether or not they have a result."""
        found: dict[str, list[int]] = {name: [] for name in self.group_names}
        for trial in self.plan.trials:
            found[trial.group].append(trial.seed)
        return {name: tuple(seeds) for name, seeds in found.items()}

    def sample(self, metric: str, group: str, at: At | None = None) -> Sample:
        """What every planned seed gave, or counts as; `a/b` is one metric over another."""
        top, _, bottom = (word.strip() for word in metric.partition("/"))
        if bottom:
            return divided(self.sample(top, group, at), self.sample(bottom, group, at))
        statuses = {trial.seed: self.status(trial) for trial in self.by_group[group]}
        values = dict(self.values(metric, group, at))
        if metric == DIVERGED:
            ran = {seed: status for seed, status in statuses.items() if status != "failed"}
            values = {seed: float(status == "diverged") for seed, status in ran.items()}
        config = self.entries[group].config
        smallest = float(np.finfo("float64" if config is None else config.train.precision).tiny)
        return sample_of(self.metric(metric), self.planned_seeds[group], values, statuses, smallest)

    @cached_property
    def _summaries(self) -> dict[Any, Estimate]:
        return {}

    def summary(self, metric: str, group: str, at: At | None = None, *, level: float = ALPHA) -> Estimate:
        """Over all planned seeds, with its interval."""
        at = at or ANYWHERE
        key = metric, group, at.layer, at.step, level
        if key not in self._summaries:
            sample, rows = self.sample(metric, group, at), self.rows(metric, group)
            self._summaries[key] = summarize(self.metric(metric), sample, level=level, rows=rows)
        return self._summaries[key]

    def rows(self, metric: str, group: str) -> int | None:
        """How many samples an accuracy is evaluated on, where the plan says so."""
        known, config = self.metric(metric), self.entries[group].config
        if known.kind != "accuracy" or known.split is None or config is None:
            return None
        rows = config.data.parameters.get(known.split)
        return rows if isinstance(rows, int) else None

    @cached_property
    def _resolutions(self) -> dict[str, float]:
        return {}

    def resolution(self, metric: str) -> float:
        """The smallest step of a metric: of an accuracy one row; else the precision of its numbers."""
        if metric not in self._resolutions:
            self._resolutions[metric] = self._resolution(metric)
        return self._resolutions[metric]

    def _resolution(self, metric: str) -> float:
        kind = self.metric(metric).kind
        if kind == "flag":
            return 1.0
        rows = [self.rows(metric, group) for group in self.group_names] if kind == "accuracy" else []
        if rows and all(rows):
            return max(1 / (count or 1) for count in rows)
        column = [v for v in self._columns.get(metric) or () if v is not None and np.isfinite(v)]
        if kind == "accuracy" and len(there := np.unique(column)) > 1:
            return float(np.diff(there).min())
        return FLOAT * max(map(abs, column), default=1.0)

    def profile(self, measure: str, group: str, step: int | str | None = "end") -> Profile:
        """A layer measure at one step, seed by seed and layer by layer."""
        number = self.step_number(group, step)
        found = self._inside(measure, group, step)
        layers = range(1, self.layer_count(group) + 1)
        trials = [trial for trial in self.by_group[group] if self.status(trial) != "failed"]
        rows = [[found.get((trial.seed, layer), np.nan) for layer in layers] for trial in trials]
        return Profile(group, measure, number, np.array(layers), np.array(rows, float).reshape(len(rows), len(layers)))

    # ------------------------------------------------------------------ curves

    @cached_property
    def _curves(self) -> dict[str, Curves]:
        return {}

    @cached_property
    def curve_names(self) -> tuple[str, ...]:
        """Metrics that have a curve, in the order in which they came."""
        column = self.records.curves()["metric"].combine_chunks()
        return tuple(column.dictionary.to_pylist())

    def curve(self, metric: str, group: str) -> list[tuple[NDArray[np.int64], NDArray[np.float64]]]:
        """(steps, values) of a curve, one per trial that has it."""
        return list(self.curves_by_seed(metric, group).values())

    def curves_by_seed(self, metric: str, group: str) -> dict[int, tuple[NDArray[np.int64], NDArray[np.float64]]]:
        """Seed -> (steps, values) of a curve, for the trials that have it."""
        if metric not in self._curves:
            self._curves[metric] = _by_trial(self.records.curves(metric))
        found = self._curves[metric]
        return {trial.seed: found[trial.id] for trial in self.by_group[group] if trial.id in found}


def _plain_words(schema: Any) -> Any:
    import pyarrow as pa

    return pa.schema([(f.name, pa.string() if pa.types.is_dictionary(f.type) else f.type) for f in schema])


def _by_trial(table: Any) -> Curves:
    """Trial id -> (steps, values)."""
    column = table["trial"].combine_chunks()
    codes = column.indices.to_numpy(zero_copy_only=False)
    order = np.argsort(codes, kind="stable")
    steps, values = (table[name].to_numpy()[order] for name in ("step", "value"))
    edges = np.searchsorted(codes[order], np.arange(len(column.dictionary) + 1))
    pieces = zip(column.dictionary.to_pylist(), edges[:-1], edges[1:], strict=True)
    return {trial: (steps[low:high], values[low:high]) for trial, low, high in pieces if high > low}
