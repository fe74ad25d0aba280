"""The tuning of a study as tables, sentences and plain data."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from gradlab.analysis.claims.verdict import describe_edge
from gradlab.analysis.estimate import interval, where
from gradlab.analysis.measured import Measured
from gradlab.analysis.tuning import RULE, Tried, Tuning
from gradlab.plans.tuning import TuningPlan, judged_phase
from gradlab.report.tables import Table
from gradlab.spec.naming import short
from gradlab.spec.paths import label, value_at
from gradlab.words import counted, join, percent, rounded


def tabulate_tuning(tuning: Tuning, measured: Measured) -> tuple[Table, ...]:
    """What was tried, and tuned beside untuned."""
    beside = tabulate_untuned(tuning, measured)
    return (tabulate_tried(tuning), *([beside] if beside is not None else []))


def tabulate_tried(tuning: Tuning) -> Table:
    """One row per arm and value: the metric over the tuning seeds, and what was chosen."""
    paths = list(tuning.stage.tune.paths)
    rows = tuple(
        (
            tried.candidate.arm,
            *(label(tried.candidate.values[path]) for path in paths),
            _score(tried.median),
            f"{_score(tried.best)} … {_score(tried.worst)}",
            _remark(tuning, tried),
        )
        for tried in tuning.tried
    )
    seeds = tuning.stage.tune.seeds
    header = ("arm", *(path.split(".")[-1] for path in paths), "median", "best … worst seed", "")
    title = f"Tuning by {tuning.metric.name} ({counted(seeds, 'seed')} of their own, in no verdict)"
    notes = (RULE, describe_cost(tuning))
    return Table(title, header, rows, notes, numbers=tuple(range(1, len(header) - 1)))


def _score(value: float | None) -> str:
    if value is None:
        return "–"
    return "diverged" if math.isinf(value) else rounded(value)


def _remark(tuning: Tuning, tried: Tried) -> str:
    words = ["chosen"] if tuning.is_chosen(tried) else []
    words += ["at the edge"] if words and tuning.edges(tried.candidate.arm) else []
    words += [f"{tried.diverged} diverged"] if tried.diverged else []
    words += [f"{tried.failed} failed"] if tried.failed else []
    return ", ".join(words)


def describe_cost(tuning: Tuning) -> str:
    """`Cost of the tuning: 54 trials, 61 s of computing, 21 % of all trials of this run.`"""
    cost = tuning.cost
    share = "" if cost.share is None else f", {percent(cost.share)} of the time of all trials"
    return f"Cost of the tuning: {cost.trials:,} trials, {rounded(cost.seconds, 2)} s of computing{share}."


def describe_choice(tuning: Tuning, measured: Measured) -> str:
    """`Each arm is judged at its own best setting: plain at learning rate 0.001 and …`; empty before the choice."""
    chosen = (tuning.stage.chosen or {}).items()
    best = [
        f"{measured.names.group(arm)} at "
        + join([f"{measured.names.level(path, value)}" for path, value in candidate.values.items()])
        for arm, candidate in chosen
    ]
    single = all(len(tuning.stage.of(arm)) == 1 for arm, _ in chosen)
    where = "the one setting that was tried, and nothing was chosen" if single else "its own best setting"
    return f"Each arm is judged at {where}: {join(best)}." if best else ""


def describe_method(tuning: Tuning) -> str:
    """How the values were chosen, for the methods."""
    tune = tuning.stage.tune
    values = len(tuning.tried) // len(tuning.plan.groups)
    return (
        f"Before that, each condition was tuned in {', '.join(tune.paths)} by {tune.by}: {values:,} candidate values, "
        f"{counted(tune.seeds, 'seed')} each, none of them used for any verdict. {RULE}"
    )


def describe_edges(tuning: Tuning) -> list[str]:
    """A sentence for each arm whose best value is at the end of the range, or that trains at no value."""
    stage = tuning.stage
    found = []
    for arm in stage.edges:
        words = describe_edge(stage, arm)
        found.append(f"{words[0].upper()}{words[1:]}. Verdicts that rest on {arm} are not settled.")
    for arm, best in (stage.chosen or {}).items():
        if next(tried for tried in tuning.of(arm) if tried.candidate == best).hopeless:
            found.append(f"{arm} diverged at every value that was tried.")
    return found


def tabulate_untuned(tuning: Tuning, measured: Measured) -> Table | None:
    """The headline of every arm at the value of the base and at its own, on the same seeds."""
    headline, stage = measured.headline, tuning.stage
    if headline is None or stage.untuned is None or stage.chosen is None:
        return None
    both = Measured(stage.untuned, measured.records)
    if not both.trials:
        return None
    rows = []
    for arm, untuned in zip(measured.group_names, both.group_names, strict=True):
        before, after = (
            each.summary(headline.metric, name, headline.at) for each, name in ((both, untuned), (measured, arm))
        )
        rows.append(
            (arm, ", ".join(base_settings(stage, arm)), interval(before), stage.chosen[arm].words, interval(after))
        )
    name = where(headline.metric, headline.at)
    header = ("arm", "untuned", f"{name}, untuned", "tuned", f"{name}, tuned")
    notes = ("Untuned: the value of the study's base, trained on the same seeds as the tuned arms; in no verdict.",)
    return Table("Tuned beside untuned (median and 95 % interval)", header, tuple(rows), notes, numbers=(2, 4))


def base_settings(stage: TuningPlan, arm: str) -> tuple[str, ...]:
    """The values of the base in one arm: `lr=0.0001`, `batch=64`."""
    planned = next(each for each in stage.base.groups if each.group.name == arm)
    tree, catalog = planned.config.model_dump(mode="json"), stage.base.catalog
    return tuple(f"{path.split('.')[-1]}={short(path, value_at(tree, path), catalog)}" for path in stage.tune.paths)


def flat_rows(tuning: Tuning) -> list[dict[str, Any]]:
    """The rows of the tuning table for files: a value that is a part with parameters as JSON text."""
    return [
        {key: json.dumps(value) if isinstance(value, Mapping | list | tuple) else value for key, value in row.items()}
        for row in tuning.rows()
    ]


def tuning_json(tuning: Tuning, measured: Measured) -> dict[str, Any]:
    """Everything about the tuning as plain data."""
    stage, cost = tuning.stage, tuning.cost
    chosen = stage.chosen
    return {
        "by": tuning.metric.name,
        "better": tuning.metric.better,
        "seeds": list(stage.tune.tuning_seeds),
        "rule": RULE,
        "complete": tuning.complete,
        "chosen": None if chosen is None else {arm: dict(best.values) for arm, best in chosen.items()},
        "edges": {arm: list(paths) for arm, paths in stage.edges.items()},
        "untuned": {arm: list(base_settings(stage, arm)) for arm in measured.group_names} if stage.untuned else None,
        "cost": {"trials": cost.trials, "seconds": cost.seconds, "share": cost.share},
        "judged_trials": None if chosen is None else len(judged_phase(tuning.plan).trials),
        "tried": tuning.rows(),
    }
