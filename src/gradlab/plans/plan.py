"""The plan: every trial of a study, checked as far as possible before anything runs."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from gradlab.data.base import Facts, Task
from gradlab.data.preparing import check as check_data
from gradlab.errors import InvalidInput, StudyError, Where, nearest, offer, shortened
from gradlab.network.initial import check_bias
from gradlab.network.losses import Loss
from gradlab.network.mlp import MLP
from gradlab.optim.rule import make_rule
from gradlab.parts import BUILT_IN, Catalog
from gradlab.plans.cost import NOMINAL_SPEED, Cost, Speed, measure_speed, trial_cost
from gradlab.plans.resources import available_bytes
from gradlab.spec.base import content_id
from gradlab.spec.claims import At
from gradlab.spec.config import Config, Group, Train
from gradlab.spec.expand import expand, place_in_study
from gradlab.spec.files import Resolved
from gradlab.spec.metric import Metric, split_of
from gradlab.spec.selection import chosen
from gradlab.spec.study import Code, Study, list_seeds
from gradlab.streams import Streams
from gradlab.trials.metrics import AT_BEST_EPOCH, EVALUATED, FROM_CURVES, METRICS, OPTIONAL, WHOLE, epoch_metrics
from gradlab.trials.setup import make_horizon, moments_of, snapshot_steps
from gradlab.trials.trial import Job, Trial, group_content, group_id, trial_id
from gradlab.words import join

if TYPE_CHECKING:
    from gradlab.engines.base import Engine
    from gradlab.plans.tuning import TuningPlan

MAX_TRIALS = 1_000_000
UNKNOWN_SECONDS = 60.0
"""Assumed seconds of a call of the user's code, whose real time is unknown: each is submitted by itself."""


@dataclass(frozen=True)
class PlannedGroup:
    """A group with everything that is known about its trials before they run.

    Of the user's code, that is its name, its settings and its ids; the results tell the rest.
    """

    group: Group
    known_cost: Cost | None
    """What one trial costs; None for the user's code."""
    classes: int | None
    """Number of classes; None for a regression."""
    stated: str
    """What was inferred from the data, in words."""
    engine: str
    """The engine that will train it."""
    reason: str | None
    """Why the fast engine is not used; None if it is."""
    numerics: str
    """What the bits of its trials depend on besides their configuration."""
    id: str = ""
    """Hash of everything but the seed that determines its results."""
    content: str = ""
    """The same without the numerics: what is to be computed, independent of the engine."""
    extra: int = 0
    """Seeds beyond those that every group has, added because a claim was open."""
    job: Job | None = None
    """What its trials run instead of an engine, where any worker can run it."""

    @property
    def network(self) -> Config | None:
        """The configuration of its networks; None for the user's code."""
        return self.group.network

    @property
    def config(self) -> Config:
        """The same, for whoever deals with networks of the lab only."""
        return self.group.config

    @property
    def cost(self) -> Cost:
        """What one trial costs, for whoever deals with networks of the lab only."""
        assert self.known_cost is not None, f"{self.group.name} is the user's code, whose cost is unknown"
        return self.known_cost

    @property
    def rough_seconds(self) -> float:
        """A rough estimate of the time of a trial on any machine, good enough to divide work."""
        return UNKNOWN_SECONDS if self.known_cost is None else NOMINAL_SPEED.seconds(self.known_cost)


@dataclass(frozen=True)
class Plan:
    """All trials, seed by seed (so that arms stay paired if a run is interrupted), and their cost."""

    resolved: Resolved
    groups: tuple[PlannedGroup, ...]
    trials: tuple[Trial, ...]
    tuning: TuningPlan | None = None
    """What is run beforehand to give each arm its own values; None if the study tunes nothing."""

    @property
    def pending(self) -> bool:
        """Whether the values at which the arms are judged are still to be chosen; its trials cannot be run yet."""
        return self.tuning is not None and self.tuning.chosen is None

    @property
    def all_trials(self) -> tuple[Trial, ...]:
        """The trials of every phase: tuning, the judged arms, and the same arms untuned."""
        if self.tuning is None:
            return self.trials
        untuned = self.tuning.untuned.trials if self.tuning.untuned is not None else ()
        return (*self.tuning.plan.trials, *self.trials, *untuned)

    @property
    def study(self) -> Study:
        """The study."""
        return self.resolved.study

    @property
    def catalog(self) -> Catalog:
        """Built-in parts and the user's own."""
        return self.resolved.catalog

    @property
    def quick(self) -> bool:
        """Whether the budget is reduced."""
        return self.resolved.quick

    @property
    def own_code(self) -> bool:
        """Whether the trials call the user's code."""
        return self.study.code is not None

    @property
    def of_table(self) -> bool:
        """Whether its trials are rows of results that exist."""
        return self.study.code is not None and self.study.code.kind == "table"

    @property
    def code(self) -> Code:
        """The user's code that its trials call."""
        assert self.study.code is not None, f"{self.study.name} trains networks of the lab"
        return self.study.code

    def choose(self, groups: Collection[str], labels: Mapping[str, str] | None = None) -> Plan:
        """The plan of some groups only, in its own order, with further labels; trials keep their ids."""
        study = self.study.model_copy(update={"labels": {**self.study.labels, **(labels or {})}})
        return replace(
            self,
            resolved=replace(self.resolved, study=study),
            groups=tuple(planned for planned in self.groups if planned.group.name in groups),
            trials=tuple(trial for trial in self.trials if trial.group in groups),
        )

    @property
    def flops(self) -> int:
        """FLOPs of all trials."""
        return sum(planned.cost.flops * self.seed_count(planned) for planned in self.groups)

    @property
    def bytes(self) -> int:
        """Memory of the largest trial; 0 of the user's code, whose memory is unknown."""
        return max(planned.known_cost.bytes if planned.known_cost else 0 for planned in self.groups)

    @property
    def announcements(self) -> tuple[str, ...]:
        """The engines' notices before the first trial."""
        found = []
        for planned in self.groups if not self.own_code else ():
            engine: Engine = planned.config.train.engine.build(self.catalog)
            chosen, _ = engine.choose(planned.config, self.catalog)
            found.append(chosen.announcement(planned.config, self.catalog))
        return tuple(dict.fromkeys(text for text in found if text is not None))

    def seconds(self, speed: Speed | None = None) -> float:
        """Estimate the time of all trials, one after the other, on one core of this machine."""
        speed = speed or measure_speed()
        return sum(speed.seconds(planned.cost) * self.seed_count(planned) for planned in self.groups)

    def seed_count(self, planned: PlannedGroup) -> int:
        """How many seeds a group is trained with."""
        return len(self.study.trial_seeds) + planned.extra

    def with_seeds(self, counts: Mapping[str, int]) -> Plan:
        """The plan in which these groups are trained with so many seeds, the first of the study's sequence."""
        fixed = len(self.study.trial_seeds)
        groups = tuple(replace(g, extra=counts.get(g.group.name, self.seed_count(g)) - fixed) for g in self.groups)
        return replace(self, groups=groups, trials=list_trials(self.resolved, groups))


def make_plan(resolved: Resolved) -> Plan:
    """Check every group and list every trial; a `StudyError` if a group cannot be trained."""
    try:
        return _make_plan(resolved)
    except InvalidInput as error:
        raise resolved.source.place(error) from None


def _make_plan(resolved: Resolved) -> Plan:
    study, catalog = resolved.study, resolved.catalog
    if len(resolved.groups) * len(study.trial_seeds) > MAX_TRIALS:
        raise StudyError(
            f"{len(resolved.groups):,} groups × {len(study.trial_seeds):,} seeds are more than {MAX_TRIALS:,} trials",
            where="seeds",
        )
    planned = []
    for group in resolved.groups:
        try:
            task: Task = group.config.data.build(catalog)
            found = PlannedGroup(group, *_check_group(group.config, task, catalog))
        except InvalidInput as error:
            raise _name_group(place_in_study(error, study, group.name), group, resolved) from None
        content = group_content(group.config, study.seed, catalog, task)
        planned.append(replace(found, id=group_id(content, found.numerics), content=content))
    plan = Plan(resolved, tuple(planned), ())
    _check_memory(plan)
    _check_references(plan)
    return replace(plan, trials=list_trials(resolved, planned))


def plan_code(study: Study, numerics: str, jobs: Mapping[str, Job] | None = None) -> Plan:
    """Plan every call of the user's code; a `StudyError` if a claim names an arm that does not exist.

    `jobs`: arm -> what its trials run, where any worker can run them.
    """
    assert study.code is not None, "a study of networks is planned by make_plan"
    resolved = Resolved(study, expand(study, BUILT_IN), BUILT_IN)
    groups = []
    for group in resolved.groups:
        content = content_id([study.code.sha256, group.settings])
        identity = group_id(content, numerics)
        job = (jobs or {}).get(group.name)
        groups.append(PlannedGroup(group, None, None, "", "code", None, numerics, identity, content, job=job))
    for index, claim in enumerate(study.claims):
        if claim.metric is not None:
            try:
                chosen(claim, resolved.groups)
            except StudyError as error:
                raise error.below("claims", index) from None
    return Plan(resolved, tuple(groups), list_trials(resolved, groups))


def _name_group(error: InvalidInput, group: Group, resolved: Resolved) -> InvalidInput:
    """Return the error with the name of the group, unless the path says it or it is the only one."""
    if len(resolved.groups) == 1:
        return error
    problems = (
        p if p.where[:2] == ("arms", group.name) else replace(p, message=f"{p.message} (in {group.name!r})")
        for p in error.problems
    )
    return type(error)(problems=tuple(problems))


def list_trials(resolved: Resolved, groups: Sequence[PlannedGroup]) -> tuple[Trial, ...]:
    """Return every trial of these groups, seed by seed."""
    study, catalog = resolved.study, resolved.catalog
    fixed = len(study.trial_seeds)
    return tuple(
        Trial(
            trial_id(planned.id, seed),
            planned.group.name,
            seed,
            study.seed,
            planned.group.network,
            catalog,
            planned.job,
        )
        for place, seed in enumerate(list_seeds(study.seeds, max((planned.extra for planned in groups), default=0)))
        for planned in groups
        if place < fixed + planned.extra
    )


def _check_references(plan: Plan) -> None:
    """Check that headline, published numbers and claims name existing groups, metrics, layers and steps."""
    study = plan.resolved.study
    if study.headline is not None:
        for planned in plan.groups:
            _check_metric(("headline",), study.headline.metric, study.headline.at, planned, plan)
    by_name = {planned.group.name: planned for planned in plan.groups}
    for index, entry in enumerate(study.published):
        if entry.arms not in by_name:
            hint = nearest(entry.arms, by_name)
            raise StudyError(
                f"{shortened(entry.arms)} is not a group of this study{hint}", where=("published", index, "arms")
            )
        for at in entry.at.places():
            for metric in entry.metric.split("/"):
                _check_metric(("published", index), metric.strip(), at, by_name[entry.arms], plan)
    if not plan.resolved.quick:
        _check_claims(plan)


def _check_claims(plan: Plan) -> None:
    """Check that claims name existing groups, metrics and places. A reduced budget may lack some and is not checked."""
    groups = [planned.group for planned in plan.groups]
    by_name = {planned.group.name: planned for planned in plan.groups}
    for index, claim in enumerate(plan.resolved.study.claims):
        if claim.metric is None:
            continue
        where = ("claims", index)
        try:
            named = chosen(claim, groups)
        except StudyError as error:
            raise error.below(*where) from None
        for name in dict.fromkeys(name for row in named for name in row):
            for at in claim.at.places():
                for metric in claim.metric.split("/") if claim.metric != "diverged" else ():
                    _check_metric(where, metric.strip(), at, by_name[name], plan)
        if claim.figure is not None and claim.figure not in plan.resolved.catalog.names("figure"):
            accepted = plan.resolved.catalog.names("figure")
            raise StudyError(
                f"{shortened(claim.figure)} is not known{offer(claim.figure, accepted)}", where=(*where, "figure")
            )


def _check_metric(where: Where, metric: str, at: At, planned: PlannedGroup, plan: Plan) -> None:
    config, catalog = planned.group.config, plan.resolved.catalog
    chosen = catalog.names("probe") if config.measure.probes == "all" else config.measure.probes
    measures = [m for name in chosen for m in catalog.get("probe", name).measures]  # type: ignore[attr-defined]
    of_trials = {**epoch_metrics(catalog), **METRICS, **OPTIONAL, **FROM_CURVES}
    accepted = list(of_trials) if at.layer is None else measures
    if metric not in accepted:
        kind = "metric of a trial" if at.layer is None else "measure of a layer that this study takes"
        hint = nearest(metric, accepted)
        if metric in (*of_trials, *measures):
            hint = "; give at.layer" if at.layer is None else "; leave at.layer out"
        raise StudyError(f"{shortened(metric)} is not a {kind}{hint}", where=(*where, "metric"))
    if at.layer is None:
        _check_metric_exists(where, of_trials[metric], planned)
        return
    layers = planned.cost.layers
    if isinstance(at.layer, int) and at.layer > layers:
        raise StudyError(
            f"there is no layer {at.layer}; {planned.group.name!r} has {layers} layers", where=(*where, "at.layer")
        )
    step = 0 if at.step == "start" else at.step if isinstance(at.step, int) else planned.cost.steps
    moments = moments_of(config.measure, planned.cost.steps)
    if step not in moments:
        raise StudyError(
            f"layers are not measured after step {step}; add it to measure.layers", where=(*where, "at.step")
        )


def _check_metric_exists(where: Where, found: Metric, planned: PlannedGroup) -> None:
    metric, kind, config = found.name, found.kind, planned.group.config
    if metric in FROM_CURVES:
        return
    _check_score((*where, "metric"), metric, config)
    if kind == "steps" and config.measure.target is None:
        raise StudyError(f"{metric!r} needs measure.target", where=(*where, "metric"))
    if metric == "epochs_trained" and config.train.early_stopping is None:
        raise StudyError(f"{metric!r} needs train.early_stopping", where=(*where, "metric"))
    if metric in WHOLE and not config.measure.train_set:
        raise StudyError(f"{metric!r} needs measure.train_set: true", where=(*where, "metric"))
    if metric == "sharpness" and config.measure.sharpness is None:
        raise StudyError(
            "'sharpness' needs measure.sharpness: the number of training samples", where=(*where, "metric")
        )
    if metric in AT_BEST_EPOCH and config.measure.best is None:
        raise StudyError(
            f"{metric!r} needs measure.best, the metric that chooses the best epoch", where=(*where, "metric")
        )
    if kind == "accuracy" and planned.classes is None:
        raise StudyError(
            f"there is no {metric!r}: the task is a regression, so it has no accuracy", where=(*where, "metric")
        )


def _check_group(config: Config, task: Task, catalog: Catalog) -> tuple[Cost, int | None, str, str, str | None, str]:
    facts = task.facts()
    check_data(config.data, task)
    if config.measure.probe.batch == "fresh" and config.data.scaling in ("per_feature", "min_max", "quantile"):
        raise StudyError("fresh samples are not scaled by columns; use train or test", where="measure.probe.batch")
    loss: Loss = config.train.loss.build(catalog)
    wanted = "classes" if facts.classes is not None else "values"
    if loss.targets != wanted:
        kinds = {n: catalog.get("loss", n) for n in catalog.names("loss")}
        fitting = [n for n, kind in kinds.items() if kind.targets == wanted and kind.for_training]  # type: ignore[attr-defined]
        raise StudyError(
            f"{loss.name!r} compares with {loss.targets}, but the task {task.name!r} has {wanted}; "
            f"use {join(fitting, 'or')}" + (", or data.kind: regression" if "kind" in task.parameter_names() else ""),
            where="train.loss",
        )
    _check_epoch_metrics(config, facts, task, catalog)
    _check_probe_batch(config, facts, task)
    check_bias(config.model.init, catalog)
    _check_size(config, facts)
    mlp = MLP.of(config.model, facts.input_width, loss.outputs(facts.output_width), catalog)
    make_rule(config.train, mlp, Streams(0, 0), catalog)
    horizon, batch = make_horizon(config.train, facts.samples)
    _check_moments(config.train, mlp, horizon.steps)
    moments = len(moments_of(config.measure, horizon.steps))
    snapshots = len(snapshot_steps(config.measure, horizon.steps)) + ("best" in config.measure.weights)
    epochs = -(-horizon.steps // horizon.steps_per_epoch)
    evaluations = -(-epochs // _epochs_per_evaluation(config, catalog)) if facts.evaluated else 0
    itemsize = 4 if config.train.precision == "float32" else 8
    engine: Engine = config.train.engine.build(catalog)
    if refusal := engine.refusal(config, catalog):
        raise StudyError(
            f"the engine {engine.name!r} cannot train this: {refusal}; use auto or reference", where="train.engine"
        )
    chosen, reason = engine.choose(config, catalog)
    numerics = engine.numerics_of(config, catalog)
    cost = trial_cost(
        mlp,
        facts,
        horizon,
        batch,
        evaluations,
        moments,
        config.measure.probe.size,
        itemsize,
        snapshots,
        chosen.calls_per_layer_step,
    )
    return cost, facts.classes, facts.stated, chosen.name, reason, numerics


def _check_moments(train: Train, mlp: MLP, steps: int) -> None:
    """Check that pruning happens within the budget, and that frozen layers exist."""
    if train.prune is not None and max(train.prune.moments) >= max(steps, 1):
        raise StudyError(f"the budget is {steps} steps; prune before the last", where="train.prune.at")
    for number in train.frozen:
        if isinstance(number, int) and number > len(mlp.layers):
            raise StudyError(f"there are {len(mlp.layers)} layers, no layer {number}", where="train.frozen")


def _epochs_per_evaluation(config: Config, catalog: Catalog) -> int:
    """Epochs between evaluations: 1 if the schedule or early stopping needs every epoch's metric."""
    stopping, reaction = config.train.early_stopping, config.train.schedule.build(catalog).reaction(config.train.lr)
    needed = (None if stopping is None else stopping.by, None if reaction is None else reaction.metric)
    every = any(name is not None and split_of(name) != "train" for name in needed)
    return 1 if every else config.measure.evaluate_every


def _check_epoch_metrics(config: Config, facts: Facts, task: Task, catalog: Catalog) -> None:
    """Check that the metrics that decide something exist: targets, the best epoch, early stopping, the schedule."""
    target, stopping = config.measure.target, config.train.early_stopping
    reaction = config.train.schedule.build(catalog).reaction(config.train.lr)
    wanted = {
        "measure.target.metric": None if target is None else target.metric,
        "measure.best": config.measure.best,
        "train.early_stopping.by": None if stopping is None else stopping.by,
        "train.schedule.by": None if reaction is None else reaction.metric,
    }
    for where, name in wanted.items():
        if name is None:
            continue
        known = epoch_metrics(catalog) | ({"final_loss": METRICS["final_loss"]} if "target" in where else {})
        if name not in known:
            raise StudyError(f"{shortened(name)} is not a metric of an epoch{offer(name, list(known))}", where=where)
        metric = known[name]
        _check_score(where, name, config)
        if metric.kind == "accuracy" and facts.classes is None:
            raise StudyError(f"the task {task.name!r} is a regression and has no accuracy", where=where)
        for split, rows in (("validation", facts.validation), ("test", facts.test)):
            if metric.split == split and rows == 0:
                raise StudyError(f"the task {task.name!r} has no {split} samples", where=where)


def _check_score(where: str | Where, metric: str, config: Config) -> None:
    """Check that the study takes the score that a metric of an epoch is made of."""
    score = metric.removeprefix("best_").partition("_")[2]
    known = {name.partition("_")[2] for name in EVALUATED}
    if metric not in METRICS and metric not in OPTIONAL and score not in known | set(config.measure.scores):
        raise StudyError(f"{metric!r} needs measure.scores: [accuracy, {score}]", where=where)


def _check_probe_batch(config: Config, facts: Facts, task: Task) -> None:
    batch = config.measure.probe.batch
    if batch == "fresh" and not task.draws_fresh:
        raise StudyError(
            f"the task {task.name!r} cannot draw fresh samples; use train, validation or test",
            where="measure.probe.batch",
        )
    if (batch == "validation" and not facts.validation) or (batch == "test" and not facts.test):
        raise StudyError(f"the task {task.name!r} has no {batch} samples; use train", where="measure.probe.batch")


def _check_size(config: Config, facts: Facts) -> None:
    """Refuse absurd sizes before computing a layout."""
    width, free, widths = config.model.width, available_bytes(), config.model.layer_widths
    least = 4 * (sum(a * b for a, b in pairwise(widths)) if config.model.depth > 1 else width * facts.input_width)
    if free and least > free:
        raise StudyError(
            f"{config.model.depth} layers of width {width:,} need more than {least / 2**30:,.0f} GiB, "
            f"and {free / 2**30:,.0f} GiB are free",
            where="model.width",
        )


def limit_workers(plan: Plan, wanted: int | None) -> int:
    """Return how many trials may run at a time: `wanted`, or one per core, as far as memory allows."""
    if wanted is not None and wanted < 1:
        raise StudyError(f"workers: at least 1, not {shortened(wanted)}")
    free, most = available_bytes(), wanted or os.cpu_count() or 1
    return max(1, min(most, int(free // max(plan.bytes, 1)))) if free else most


def _check_memory(plan: Plan) -> None:
    free = available_bytes()
    for planned in plan.groups:
        if free and planned.cost.bytes > free:
            raise StudyError(
                f"a trial of {planned.group.name!r} needs about "
                f"{planned.cost.bytes / 2**30:,.1f} GiB, and {free / 2**30:,.1f} GiB are free; "
                "make width, depth, batch or samples smaller"
            )
