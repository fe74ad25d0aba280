"""The plan: every trial of a study, checked as far as possible before anything runs."""

from __future__ import annotations

from dataclasses import dataclass

from gradlab.data.base import Facts, Task
from gradlab.engines.base import Engine
from gradlab.errors import StudyError
from gradlab.network.initial import check_bias
from gradlab.network.losses.base import Loss
from gradlab.network.mlp import MLP
from gradlab.parts import Catalog
from gradlab.plan.cost import Cost, Speed, available_bytes, measure_speed, trial_cost
from gradlab.spec.config import Config
from gradlab.spec.expand import Group
from gradlab.spec.files import Resolved
from gradlab.trial.setup import horizon_of, moments_of
from gradlab.trial.trial import Trial, trial_id

MOST_TRIALS = 1_000_000


@dataclass(frozen=True)
class PlannedGroup:
    """A group with what one of its trials costs; `stated` is what was inferred from the data."""

    group: Group
    cost: Cost
    stated: str


@dataclass(frozen=True)
class Plan:
    """All trials, seed by seed (so that arms stay paired if a run is cut short), and their cost."""

    resolved: Resolved
    groups: tuple[PlannedGroup, ...]
    trials: tuple[Trial, ...]

    @property
    def flops(self) -> int:
        """Of all trials."""
        return sum(planned.cost.flops for planned in self.groups) * len(self.resolved.study.trial_seeds)

    @property
    def bytes(self) -> int:
        """Of the largest trial."""
        return max(planned.cost.bytes for planned in self.groups)

    def seconds(self, speed: Speed | None = None) -> float:
        """A rough time for all trials, one after the other, on this machine."""
        speed = speed or measure_speed()
        return sum(speed.seconds(planned.cost) for planned in self.groups) * len(self.resolved.study.trial_seeds)


def make_plan(resolved: Resolved) -> Plan:
    """Check every group, name every trial; a `StudyError` where a group cannot be trained."""
    study, catalog = resolved.study, resolved.catalog
    if len(resolved.groups) * len(study.trial_seeds) > MOST_TRIALS:
        raise StudyError(
            f"{study.name}: {len(resolved.groups):,} groups × {len(study.trial_seeds):,} seeds is too much"
        )
    planned, tasks = [], []
    for group in resolved.groups:
        try:
            task: Task = group.config.data.build(catalog)
            planned.append(PlannedGroup(group, *_checked(group.config, task, catalog)))
        except StudyError as error:
            raise StudyError(f"{study.name}: in {group.name!r}: {error}") from None
        tasks.append(task)
    plan = Plan(resolved, tuple(planned), ())
    _fits_in_memory(plan)
    trials = tuple(
        Trial(
            trial_id(group.config, study.seed, seed, catalog, task, _numerics(group.config, catalog)),
            group.name,
            seed,
            study.seed,
            group.config,
            catalog,
        )
        for seed in study.trial_seeds
        for group, task in zip(resolved.groups, tasks, strict=True)
    )
    return Plan(resolved, tuple(planned), trials)


def _numerics(config: Config, catalog: Catalog) -> str:
    engine: type[Engine] = catalog.get("engine", config.train.engine)  # type: ignore[assignment]
    return f"{engine.name}-{engine.numerics}"


def _checked(config: Config, task: Task, catalog: Catalog) -> tuple[Cost, str]:
    facts = task.facts()
    loss: Loss = config.train.loss.build(catalog)
    wanted = "classes" if facts.classes is not None else "values"
    if loss.targets != wanted:
        fitting = [n for n in catalog.names("loss") if catalog.get("loss", n).targets == wanted]  # type: ignore[attr-defined]
        raise StudyError(
            f"train.loss: {loss.name!r} compares with {loss.targets}, but the task {task.name!r} has {wanted}; "
            f"use {' or '.join(fitting)}"
        )
    _check_target(config, facts, task)
    _check_probe_batch(config, facts, task)
    check_bias(config.model.init.build(catalog), config.model.init)
    _fits_roughly(config, facts)
    mlp = MLP.of(config.model, facts.input_width, facts.output_width, catalog)
    horizon, batch = horizon_of(config.train, facts.samples)
    moments = len(moments_of(config.measure, horizon.steps))
    evaluations = horizon.steps // horizon.steps_per_epoch // config.measure.evaluate_every if facts.evaluated else 0
    itemsize = 4 if config.train.precision == "float32" else 8
    return trial_cost(mlp, facts, horizon, batch, evaluations, moments, itemsize), facts.stated


def _check_target(config: Config, facts: Facts, task: Task) -> None:
    target = config.measure.target
    if target is None:
        return
    if target.metric.endswith("accuracy") and facts.classes is None:
        raise StudyError(f"measure.target.metric: the task {task.name!r} is a regression and has no accuracy")
    if not target.metric.startswith("train") and facts.evaluated == 0:
        raise StudyError(f"measure.target.metric: the task {task.name!r} has neither validation nor test samples")


def _check_probe_batch(config: Config, facts: Facts, task: Task) -> None:
    batch = config.measure.probe.batch
    if batch == "fresh" and not task.draws_fresh:
        raise StudyError(
            f"measure.probe.batch: the task {task.name!r} cannot draw fresh samples; use train, validation or test"
        )
    if (batch == "validation" and not facts.validation) or (batch == "test" and not facts.test):
        raise StudyError(f"measure.probe.batch: the task {task.name!r} has no {batch} samples; use train")


def _fits_roughly(config: Config, facts: Facts) -> None:
    """Refuse absurd sizes before even laying them out."""
    width, free = config.model.width, available_bytes()
    least = 4 * (config.model.depth * width * width) if config.model.depth > 1 else 4 * width * facts.input_width
    if free and least > free:
        raise StudyError(
            f"model.width: {config.model.depth} layers of width {width:,} need more than {least / 2**30:,.0f} GiB, "
            f"and {free / 2**30:,.0f} GiB are free"
        )


def _fits_in_memory(plan: Plan) -> None:
    free = available_bytes()
    for planned in plan.groups:
        if free and planned.cost.bytes > free:
            raise StudyError(
                f"{plan.resolved.study.name}: a trial of {planned.group.name!r} needs about "
                f"{planned.cost.bytes / 2**30:,.1f} GiB, and {free / 2**30:,.1f} GiB are free; "
                "make width, depth, batch or samples smaller"
            )
