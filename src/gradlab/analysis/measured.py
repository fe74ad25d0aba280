"""Everything that was measured in a run, by metric, group and place.

`Measured` is what all of `analysis` and `report` ask. It looks at the three stored tables through the plan: trials
under the names of today's study, layer measures by an index (`LayerIndex`), a metric over all planned seeds as one
`Estimate`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gradlab.analysis.estimate import Estimate
from gradlab.analysis.rules import ALPHA, FLOAT, one_arm
from gradlab.analysis.sample import Sample, as_first_planned, divided, sample_of
from gradlab.runs.store.records import Records, results_hash
from gradlab.runs.store.tables import COLUMNS
from gradlab.spec.claims import At, ClaimAt
from gradlab.spec.metric import FRACTION, Metric, Metrics
from gradlab.spec.naming import Names
from gradlab.spec.study import Headline, Study
from gradlab.trials.metrics import FROM_CURVES, METRICS, declared_metrics, rises
from gradlab.trials.setup import moments_of
from gradlab.trials.trial import TrialLabel
from gradlab.words import counted

if TYPE_CHECKING:
    from gradlab.plans.plan import Plan, PlannedGroup

HEADLINES = ("test_accuracy", "test_loss", "validation_loss", "final_loss", "initial_loss")
"""The usual metrics, the one that says most first."""
BESIDES = ("last_loss", "collapsed", "diverged_step", "parameters", "flops", "seconds_per_epoch")
"""Metrics that answer nothing by themselves."""

# The columns of a trials table as lists, each converted when it is first asked for: a list of a million numbers takes
# eight times the memory of the column, and a summary asks for a few columns only.


class Columns:
    """Column name -> list of values."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self._names = frozenset(table.column_names)
        self._lists: dict[str, list[Any]] = {}

    def get(self, name: str) -> list[Any] | None:
        """The values of a column; None if there is no such column."""
        return self[name] if name in self._names else None

    def __getitem__(self, name: str) -> list[Any]:
        if name not in self._lists:
            self._lists[name] = self._table[name].to_pylist()
        return self._lists[name]


# A layer measure of a group, seed by seed and layer by layer.


@dataclass(frozen=True)
class Profile:
    """A layer measure at one step in one group: values[seed, layer], NaN where it does not exist."""

    group: str
    measure: str
    step: int
    layers: NDArray[np.int64]
    values: NDArray[np.float64]


def over_layers(
    found: Mapping[tuple[int, int], float], seeds: Sequence[int], choose: Callable[[list[float]], float]
) -> dict[int, float | int | None]:
    """Seed -> the least or most of all layers; NaN where a layer has no number."""
    by_seed: dict[int, list[float]] = {}
    for (seed, _), value in found.items():
        by_seed.setdefault(seed, []).append(value)
    chosen = {seed: np.nan if np.isnan(values).any() else choose(values) for seed, values in by_seed.items()}
    return {seed: chosen.get(seed) for seed in seeds}


# Layer measures of a whole run, found by measure, group and step without walking through the table each time.


class LayerIndex:
    """The layers table, sorted once by (measure, step, group)."""

    def __init__(self, table: Any, plan: Plan) -> None:
        self._groups = {identity: code for code, identity in enumerate({p.id: None for p in plan.groups})}
        self._found: dict[tuple[str, str, int], dict[tuple[int, int], float]] = {}
        group_of, seed_of = self._owners(table, plan)
        trial = table["trial"].combine_chunks().indices.to_numpy(zero_copy_only=False)
        measure = table["measure"].combine_chunks()
        group = group_of[trial]
        kept = group >= 0
        codes = measure.indices.to_numpy(zero_copy_only=False)[kept]
        step = table["step"].to_numpy()[kept]
        self._measures = {name: code for code, name in enumerate(measure.dictionary.to_pylist())}
        self._steps, step_code = np.unique(step, return_inverse=True)
        key = self._key(codes.astype(np.int64), step_code, group[kept].astype(np.int64))
        order = np.argsort(key, kind="stable")
        self._sorted = key[order]
        self._seed = seed_of[trial][kept][order]
        self._layer = table["layer"].to_numpy()[kept][order]
        self._value = table["value"].to_numpy()[kept][order]
        there = np.unique(codes)
        self.measures = tuple(name for name, code in self._measures.items() if code in there)

    def _owners(self, table: Any, plan: Plan) -> tuple[Any, Any]:
        """Group code and seed of every trial in the table's dictionary; −1 for one that the plan does not have."""
        owner = {trial.id: trial for trial in plan.trials}
        by_name = {planned.group.name: planned.id for planned in plan.groups}
        names = table["trial"].combine_chunks().dictionary.to_pylist()
        known = [owner.get(name) for name in names]
        groups = [-1 if trial is None else self._groups[by_name[trial.group]] for trial in known]
        seeds = [-1 if trial is None else trial.seed for trial in known]
        return np.array(groups, np.int64), np.array(seeds, np.int64)

    def _key(self, measure: Any, step: Any, group: Any) -> Any:
        return (measure * max(len(self._steps), 1) + step) * len(self._groups) + group

    @cached_property
    def _extents(self) -> dict[int, tuple[int, dict[int | None, tuple[int, ...]]]]:
        """Group code -> its highest layer, and the steps that were looked at: of each seed, and (None) of all."""
        group = self._sorted % max(len(self._groups), 1)
        step = self._steps[self._sorted // max(len(self._groups), 1) % max(len(self._steps), 1)]
        found = {}
        for code in np.unique(group):
            own = group == code
            seeds: dict[int | None, tuple[int, ...]] = {None: tuple(np.unique(step[own]).tolist())}
            for seed in np.unique(self._seed[own]):
                seeds[int(seed)] = tuple(np.unique(step[own & (self._seed == seed)]).tolist())
            found[int(code)] = int(self._layer[own].max()), seeds
        return found

    def layer_count(self, group: str) -> int:
        """The highest layer in which anything was measured in the group with this id."""
        return self._extents.get(self._groups[group], (0, {}))[0]

    def steps(self, group: str, seed: int | None = None) -> tuple[int, ...]:
        """The steps after which anything was measured in it, in one trial or in any."""
        return self._extents.get(self._groups[group], (0, {}))[1].get(seed, ())

    def values(self, measure: str, group: str, step: int) -> dict[tuple[int, int], float]:
        """(seed, layer) -> value, in the group with this id; what was not measured is not there."""
        wanted = (measure, group, step)
        if wanted not in self._found:
            self._found[wanted] = self._look_up(measure, group, step)
        return self._found[wanted]

    def _look_up(self, measure: str, group: str, step: int) -> dict[tuple[int, int], float]:
        place = int(np.searchsorted(self._steps, step))
        if measure not in self._measures or place == len(self._steps) or self._steps[place] != step:
            return {}
        key = self._key(self._measures[measure], place, self._groups[group])
        low, high = np.searchsorted(self._sorted, [key, key + 1])
        window = slice(int(low), int(high))
        keys = zip(self._seed[window].tolist(), self._layer[window].tolist(), strict=True)
        return dict(zip(keys, self._value[window].tolist(), strict=True))


# A metric of a group over all planned seeds, in one `Estimate`.


def summarize(metric: Metric, sample: Sample, *, level: float = ALPHA, rows: int | None = None) -> Estimate:
    """Center and interval by the rule that decides, with everything that is not a plain number counted beside.

    `rows`: how many samples an accuracy was evaluated on; they are a sample too.
    """
    rule, tally = one_arm(metric, sample), sample.tally
    found = Estimate(None, None, None, 0) if rule is None else rule.estimate_at(level)
    finite = np.array([value for value in sample.known if math.isfinite(value)])
    return replace(
        found,
        n=len(finite),
        mean=float(finite.mean()) if len(finite) else None,
        median=float(np.median(finite)) if len(finite) else None,
        smallest=float(finite.min()) if len(finite) else None,
        largest=float(finite.max()) if len(finite) else None,
        planned=tally.planned,
        zeros=tally.zeros,
        nan=tally.nan,
        inf=tally.inf,
        minus_inf=tally.minus_inf,
        missing=tally.missing,
        diverged=tally.diverged,
        failed=tally.failed,
        sampling_error=_sampling_error(found.value, rows),
    )


def _sampling_error(share: float | None, rows: int | None) -> float | None:
    """1.96 √(p(1 − p)/m); of an accuracy in percent nobody knows m."""
    if share is None or not rows or not 0 <= share <= 1:
        return None
    return 1.96 * math.sqrt(share * (1 - share) / rows)


# Everything that was measured, asked by name: a metric, a group, and where it is taken.

ANYWHERE = At()
DIVERGED = "diverged"
"""Whether a trial diverged, as a number of its own."""
Curves = Mapping[str, tuple[NDArray[np.int64], NDArray[np.float64]]]


@dataclass(frozen=True)
class Measured:
    """A plan and the results that are there so far. Only trials of the plan are seen, under the plan's names."""

    plan: Plan
    records: Records

    @property
    def study(self) -> Study:
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
    def headline(self) -> Headline | None:
        """What the study names as its headline, or the first of the usual metrics that exists."""
        if self.study.headline is not None:
            return self.study.headline
        usual = [metric for metric in HEADLINES if metric in self.metrics]
        others = [metric for metric in self.metrics if metric not in BESIDES]
        return next((Headline(metric=metric) for metric in [*usual, *others]), None)

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
        return Measured(self.plan.choose(groups, labels), self.records)

    def first(self, seeds: int) -> Measured:
        """The same results after the first so many seeds of every group."""
        counts = {name: min(len(planned), seeds) for name, planned in self.planned_seeds.items()}
        order = {(name, seed): place for name, own in self.planned_seeds.items() for place, seed in enumerate(own)}
        trials = tuple(trial for trial in self.plan.trials if order[trial.group, trial.seed] < counts[trial.group])
        found = Measured(replace(self.plan, trials=trials), self.records)
        # what was read of the tables is the same for any number of seeds
        found.__dict__.update(_rows=self._rows, _columns=self._columns, _layers=self._layers)
        return found

    @cached_property
    def seed_counts(self) -> tuple[int, int]:
        """The fewest and the most seeds that a group is planned with."""
        counts = [len(seeds) for seeds in self.planned_seeds.values()]
        return min(counts), max(counts)

    @property
    def seed_words(self) -> str:
        """`10 seeds`; `10 to 84 seeds`, where seeds are added until the claims are settled."""
        fewest, most = self.seed_counts
        return counted(most, "seed") if fewest == most else f"{fewest} to {counted(most, 'seed')}"

    @cached_property
    def all_seeds(self) -> tuple[int, ...]:
        """The seeds of the group that has most."""
        return max(self.planned_seeds.values(), key=len)

    @cached_property
    def entries(self) -> Mapping[str, PlannedGroup]:
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
        return declared_metrics(self.plan.catalog)

    def metric(self, name: str) -> Metric:
        """What a metric or layer measure is: what is better, on which scale, of which kind.

        Of user code nobody has said which numbers are yes or no: those that are 0 or 1 in every trial of the study.
        """
        found, headline = self._declared[name], self.study.headline
        if headline is not None and headline.metric == name and headline.better not in (None, found.better):
            found = replace(Metric.of(name, "other", label=found.label), better=headline.better)
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
        cost = self.entries[group].known_cost
        return cost.layers if cost is not None else self._layers.layer_count(self.entries[group].id)

    def moments(self, group: str) -> tuple[int, ...]:
        """The steps after which the inside was measured."""
        planned = self.entries[group]
        if planned.network is None or self._ends_anywhere(group):
            return self._layers.steps(planned.id)
        return tuple(moments_of(planned.config.measure, planned.cost.steps))

    def steps_per_epoch(self, group: str) -> int:
        """Updates in one pass over the training data; 1 where nobody knows: a curve is then over steps."""
        cost = self.entries[group].known_cost
        return max(cost.steps_per_epoch, 1) if cost is not None else 1

    def places(self, at: At, group: str) -> tuple[At, ...]:
        """One place per layer that `at` names; `all` stands for every layer of the group's network."""
        if not (isinstance(at, ClaimAt) and at.layer == "all"):
            return at.places()
        return tuple(At(step=at.step, layer=layer) for layer in range(1, self.layer_count(group) + 1))

    def _ends_anywhere(self, group: str) -> bool:
        """Whether each trial has an end of its own: in somebody's own code, and with early stopping."""
        planned = self.entries[group]
        return planned.network is None or planned.network.train.early_stopping is not None

    def step_number(self, group: str, step: int | str | None, seed: int | None = None) -> int:
        """`start`, `end` (also the default: after the whole budget) or a number, as a number of steps.

        Code of somebody's own and trials with early stopping may end anywhere: start and end are then the first and
        the last step that were looked at, of the trial with this `seed` or of the longest.
        """
        if isinstance(step, int):
            return step
        cost = self.entries[group].known_cost
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
            if self.entries[group].known_cost is not None and step != "start" and self.status(trial) == "diverged":
                continue  # a network that diverged was not looked at where it ended
            values = self._layers.values(measure, identity, self.step_number(group, step, trial.seed))
            found |= {key: value for key, value in values.items() if key[0] == trial.seed}
        return found

    def in_percent(self, metric: str) -> bool:
        """Whether a share is given in percent: a number of it is above 1."""
        return any((value or 0.0) > 1.0 for name in self.group_names for value in self.values(metric, name).values())

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
        """The seeds that the plan has for each group, whether or not they have a result, first those planned first."""
        found: dict[str, list[int]] = {name: [] for name in self.group_names}
        for trial in self.plan.trials:
            found[trial.group].append(trial.seed)
        return {name: as_first_planned(seeds, self.records.seeds) for name, seeds in found.items()}

    @cached_property
    def copies(self) -> Mapping[str, Mapping[int, int]]:
        """Group -> seed -> an earlier seed whose results are the same: one network, not two.

        All seeds of a group are copies if they agree to 5 digits in everything: the order in which a full batch is
        summed is rounded differently. NaN under every seed is no agreement. Some of them are if they agree to the last
        bit in a number of at least 8 digits: few digits may agree by chance, and one dead network gives the same zeros
        as another.
        """
        names = [name for name in self.metrics if self.metric(name).kind != "time" and not self._repeats_seed(name)]
        found: dict[str, dict[int, int]] = {}
        for group, trials in self.by_group.items():
            rows = {
                trial.seed: tuple(self._columns[name][self._rows[trial.id]] for name in names)
                for trial in trials
                if self.status(trial) == "done"
            }
            ran = [seed for seed in self.planned_seeds[group] if seed in rows]
            same = len({tuple(map(_rounded, row)) for row in rows.values()}) == 1
            if same and any(map(_is_number, rows[ran[0]])) and self._curves_agree(group, ran):
                found[group] = dict.fromkeys(ran[1:], ran[0])
                continue
            first: dict[tuple[Any, ...], int] = {}
            earlier = {seed: first.setdefault(rows[seed], seed) for seed in ran}
            found[group] = {
                seed: other for seed, other in earlier.items() if other != seed and any(map(_is_fine, rows[seed]))
            }
        return found

    def _repeats_seed(self, metric: str) -> bool:
        """Whether a number is just the seed again, as some code returns it."""
        column = self._columns[metric]
        return all(column[self._rows[trial.id]] == trial.seed for trial in self.trials)

    def _curves_agree(self, group: str, seeds: Sequence[int]) -> bool:
        for metric in self.curve_names:
            curves = {} if self.metric(metric).kind == "time" else self.curves_by_seed(metric, group)
            values = [curves[seed][1] for seed in seeds if seed in curves]
            if any(len(other) != len(values[0]) for other in values):
                return False
            if any(not np.allclose(values[0], other, rtol=1e-4, atol=0, equal_nan=True) for other in values[1:]):
                return False
        return True

    def sample(self, metric: str, group: str, at: At | None = None) -> Sample:
        """What every planned seed gave, or counts as; `a/b` is one metric over another."""
        found: Sample = self.remember(f"sample: {metric}, {group}, {at}", lambda own: own._sample(metric, group, at))
        return found

    def _sample(self, metric: str, group: str, at: At | None) -> Sample:
        top, _, bottom = (word.strip() for word in metric.partition("/"))
        if bottom:
            return divided(self.sample(top, group, at), self.sample(bottom, group, at))
        statuses = {trial.seed: self.status(trial) for trial in self.by_group[group]}
        values = dict(self.values(metric, group, at))
        if metric == DIVERGED:
            ran = {seed: status for seed, status in statuses.items() if status != "failed"}
            values = {seed: float(status == "diverged") for seed, status in ran.items()}
        config = self.entries[group].network
        smallest = float(np.finfo("float64" if config is None else config.train.precision).tiny)
        found = sample_of(self.metric(metric), self.planned_seeds[group], values, statuses, smallest)
        copies = frozenset(self.copies[group])
        if config is None and len(set(found.known)) == 1 and _is_fine(found.known[0]):
            # code of somebody's own that gives one number of many digits under every seed, whatever else it returns
            copies = frozenset([seed for seed, (low, high) in found.ends.items() if low == high][1:])
        return replace(found, copies=copies, by_code=config is None)

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
        known, config = self.metric(metric), self.entries[group].network
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


def _rounded(value: float | int | None) -> str | None:
    return None if value is None else f"{value:.4e}"


def _is_number(value: float | int | None) -> bool:
    return value is not None and bool(np.isfinite(value))


def _is_fine(value: float | int | None) -> bool:
    """Whether a number has so many digits that two networks do not share it by chance."""
    return isinstance(value, float) and value != 0 and np.isfinite(value) and float(f"{value:.7g}") != value


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
