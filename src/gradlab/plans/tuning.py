"""Plan a study that tunes: the values at which each arm is tried, then the arms at the values that were chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import exp, log, prod
from typing import Any

from gradlab.errors import StudyError, nearest, shortened
from gradlab.plans.plan import Plan, PlannedGroup, list_trials, make_plan
from gradlab.spec.base import content_id
from gradlab.spec.config import Group
from gradlab.spec.expand import own_paths, resolve_groups
from gradlab.spec.files import Resolved
from gradlab.spec.metric import Metric
from gradlab.spec.paths import label, value_at
from gradlab.spec.study import DIGITS, Interval, Study, Tune
from gradlab.streams import Streams
from gradlab.trials.metrics import METRICS, epoch_metrics
from gradlab.trials.trial import group_id

# The values: a grid, or random points from the study's own seed.

MOST_CANDIDATES = 100_000


@dataclass(frozen=True)
class Candidate:
    """Values at which one arm is tried."""

    arm: str
    values: Mapping[str, Any]
    """Path -> value."""

    @property
    def name(self) -> str:
        """Name of its group in the tuning plan."""
        return f"{self.arm}, {self.words}"

    @property
    def settings(self) -> tuple[str, ...]:
        """`lr=0.001`, `batch=64`."""
        return tuple(f"{path.split('.')[-1]}={label(value)}" for path, value in self.values.items())

    @property
    def words(self) -> str:
        """The same in one line."""
        return ", ".join(self.settings)


def list_candidates(resolved: Resolved) -> tuple[Candidate, ...]:
    """The values that every arm is tried at. An arm that sets a tuned path itself keeps its own value there."""
    study, tune = resolved.study, resolved.study.tune
    assert tune is not None
    names = [group.name for group in resolved.groups]
    for arm in tune.arms:
        if arm not in names:
            raise StudyError(f"tune.arms: {shortened(arm)} is not a group of this study{nearest(arm, names)}")
    own = own_paths(study)
    found: list[Candidate] = []
    for group in resolved.groups:
        tree = group.config.model_dump(mode="json")
        values: dict[str, Any] = {}
        for path, given in tune.values_of(group.name).items():
            fixed = study.arms is not None and path in own[group.name]
            values[path] = (value_at(tree, path),) if fixed else given
        points = _draw(study, values, tune.search.random) if not isinstance(tune.search, str) else _grid(values)
        found += [Candidate(group.name, point) for point in points]
        if len(found) > MOST_CANDIDATES:
            raise StudyError(f"tune: more than {MOST_CANDIDATES:,} combinations of arms and values")
    return tuple(found)


def _grid(values: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    if prod(len(each) for each in values.values()) > MOST_CANDIDATES:
        raise StudyError(f"tune: the grid has more than {MOST_CANDIDATES:,} points; use search: {{random: 40}}")
    points = [dict(zip(values, point, strict=True)) for point in product(*values.values())]
    return _distinct(points)


def _draw(study: Study, values: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
    """Random points from the study's own seed: the same for all arms, and a longer search begins with a shorter one."""
    streams = Streams(study.seed, None)
    points = []
    for number in range(count):
        draws = streams.uniform("tuning", (len(values),), number)
        points.append({path: _drawn(own, float(u)) for (path, own), u in zip(values.items(), draws, strict=True)})
    return _distinct(points)


def _drawn(values: Any, u: float) -> Any:
    """A value at the quantile `u`, rounded as the points of a range are."""
    if not isinstance(values, Interval):
        return values[int(u * len(values))]
    low, high = values.ends
    value = exp(log(low) + u * (log(high) - log(low))) if values.log is not None else low + u * (high - low)
    if all(isinstance(end, int) for end in values.ends):
        return round(value)
    return float(f"{value:.{DIGITS}g}")


def _distinct(points: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return list({content_id(point): point for point in points}.values())


# The plan of a study that tunes: which values each arm is tried at, and the judged plan once they are chosen.
#
# tuning trials (candidates × seeds −1, −2, …) ─▶ each arm's best value ─▶ judged trials (arms × the study's seeds)
#
# The judged configurations depend on results, so a plan exists in two states. Before the choice it is *pending*: its
# trials are placeholders whose ids nothing can have. `judge_at` gives the plan at the chosen values. Both states freeze
# the same content: the choice is a function of what was frozen.


@dataclass(frozen=True)
class TuningPlan:
    """What is run before the arms are judged, and what was chosen."""

    tune: Tune
    candidates: tuple[Candidate, ...]
    """Arm by arm, in the order of the values."""
    plan: Plan
    """One group per candidate, on the tuning seeds."""
    untuned: Plan | None
    """The arms at the values of the base, on the judging seeds; None if the study does not want them."""
    base: Plan
    """The same under the arms' own names, whether or not it is run: what is frozen before the choice."""
    chosen: Mapping[str, Candidate] | None = None
    """Arm -> its best candidate; None before every tuning trial has a result."""

    @property
    def metric(self) -> Metric:
        """What decides."""
        return {**METRICS, **epoch_metrics(self.base.catalog)}[self.tune.by]

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms, in the study's order."""
        return tuple(planned.group.name for planned in self.base.groups)

    def of(self, arm: str) -> tuple[Candidate, ...]:
        """The candidates of one arm."""
        return tuple(candidate for candidate in self.candidates if candidate.arm == arm)

    @property
    def edges(self) -> Mapping[str, tuple[str, ...]]:
        """Arm -> the tuned paths whose chosen value is the smallest or largest of those that were tried."""
        found: dict[str, tuple[str, ...]] = {}
        for arm, best in (self.chosen or {}).items():
            tried = {path: [candidate.values[path] for candidate in self.of(arm)] for path in best.values}
            at_end = tuple(path for path, values in tried.items() if _is_end(best.values[path], values))
            found |= {arm: at_end} if at_end else {}
        return found


def _is_end(value: Any, tried: Sequence[Any]) -> bool:
    """Whether a number is the smallest or largest of several; words have no order and no end."""
    if not all(isinstance(each, int | float) and not isinstance(each, bool) for each in tried):
        return False
    return len(set(tried)) > 1 and value in (min(tried), max(tried))


def plan_study(resolved: Resolved) -> Plan:
    """The plan of a study; of one that tunes, the pending plan with its tuning."""
    if resolved.study.code is not None:
        raise StudyError(f"{resolved.study.name}: code: a comparison of code is run by gradlab.compare, which calls it")
    base = make_plan(resolved)
    if resolved.study.tune is None:
        return base
    _check_metric(base, resolved.study.tune)
    candidates = list_candidates(resolved)
    return assemble(base, candidates, make_plan(resolved_candidates(resolved, candidates)))


def assemble(base: Plan, candidates: Sequence[Candidate], tried: Plan) -> Plan:
    """The pending plan: `base` has the arms at the values of the base, `tried` a group per candidate."""
    tune = base.study.tune
    assert tune is not None
    tuning = TuningPlan(tune, tuple(candidates), tried, _renamed(base) if tune.untuned else None, base)
    groups = tuple(map(_placeholder, base.groups))
    return Plan(base.resolved, groups, list_trials(base.resolved, groups), tuning)


def judge_at(pending: Plan, chosen: Mapping[str, Candidate]) -> Plan:
    """The plan of the judged trials: every arm at its chosen values."""
    plan = make_plan(resolved_at(pending.resolved, chosen))
    return with_choice(plan, pending, chosen)


def with_choice(plan: Plan, pending: Plan, chosen: Mapping[str, Candidate]) -> Plan:
    """A plan at the chosen values, with the tuning that it comes from."""
    assert pending.tuning is not None
    return replace(plan, tuning=replace(pending.tuning, chosen=dict(chosen)))


def judged_phase(plan: Plan) -> Plan:
    """Everything that is judged: the arms and, of a study that tunes, the same arms untuned."""
    untuned = None if plan.tuning is None else plan.tuning.untuned
    if untuned is None:
        return plan
    judged = {trial.id for trial in plan.trials}  # an arm whose best value is that of the base is trained once
    others = tuple(trial for trial in untuned.trials if trial.id not in judged)
    return replace(plan, groups=(*plan.groups, *untuned.groups), trials=(*plan.trials, *others))


def resolved_at(resolved: Resolved, chosen: Mapping[str, Candidate]) -> Resolved:
    """The study with every group at its chosen values."""
    values = [(group.name, chosen[group.name].values) for group in resolved.groups]
    configs = resolve_groups(resolved.study, resolved.catalog, values, written="tune")
    groups = tuple(replace(group, network=config) for group, config in zip(resolved.groups, configs, strict=True))
    return replace(resolved, groups=groups)


def resolved_candidates(resolved: Resolved, candidates: Sequence[Candidate]) -> Resolved:
    """The study of the tuning trials: a group per candidate, without layer measures, on the tuning seeds."""
    study, tune = resolved.study, resolved.study.tune
    assert tune is not None
    measure = study.measure.model_copy(update={"layers": (), "weights": ()})
    own = {"measure": measure, "seeds": tune.tuning_seeds, "tune": None, "claims": (), "published": ()}
    tried = study.model_copy(update={**own, "headline": None})
    values = [(candidate.arm, {**tune.budget, **candidate.values}) for candidate in candidates]
    configs = resolve_groups(tried, resolved.catalog, values, written="tune")
    groups = tuple(
        Group(candidate.name, dict(candidate.values), config)
        for candidate, config in zip(candidates, configs, strict=True)
    )
    return Resolved(tried, groups, resolved.catalog, resolved.quick)


def untuned_name(arm: str) -> str:
    """The name of an arm at the values of the base."""
    return f"{arm}, untuned"


def _placeholder(planned: PlannedGroup) -> PlannedGroup:
    """The arm under an id that no trial can have: its values are not chosen yet."""
    content = content_id({"pending": planned.content})
    return replace(planned, content=content, id=group_id(content, planned.numerics))


def _renamed(base: Plan) -> Plan:
    """The arms at the values of the base, under names of their own."""
    named = tuple(replace(group, name=untuned_name(group.name)) for group in base.resolved.groups)
    resolved = replace(base.resolved, groups=named)
    groups = tuple(replace(planned, group=group) for planned, group in zip(base.groups, named, strict=True))
    return Plan(resolved, groups, list_trials(resolved, groups))


def _check_metric(plan: Plan, tune: Tune) -> None:
    """Refuse a metric that does not exist, has no direction, or changes from run to run."""
    known = {**METRICS, **epoch_metrics(plan.catalog)}
    source, metric = plan.study.name, known.get(tune.by)
    accepted = [name for name, each in known.items() if each.sign and each.kind != "time"]
    if metric is None or metric.name not in accepted:
        why = "is not a metric of a trial" if metric is None else "cannot choose a value"
        why += "" if metric is None else ": wall times differ from run to run" * (metric.kind == "time")
        why += "" if metric is None else ": neither more nor less of it is better" * (metric.sign == 0)
        hint = f"; use {', '.join(accepted)}" if metric is not None else nearest(tune.by, accepted)
        raise StudyError(f"{source}: tune.by: {shortened(tune.by)} {why}{hint}")
    for planned in plan.groups:
        facts = planned.config.data.build(plan.catalog).facts()
        rows = {"validation": facts.validation, "test": facts.test}.get(metric.split or "", 1)
        if not rows:
            raise StudyError(
                f"{source}: tune.by: {metric.name} needs {metric.split} samples, and the task has none; "
                f"set data.{metric.split}, or use final_loss"
            )
        if metric.kind == "accuracy" and planned.classes is None:
            raise StudyError(f"{source}: tune.by: {metric.name} does not exist because the task is a regression")
        if metric.kind == "steps" and planned.config.measure.target is None:
            raise StudyError(f"{source}: tune.by: {metric.name} needs measure.target")
