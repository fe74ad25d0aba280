"""Studies with computed outcomes: results without training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import gradlab
from gradlab.analysis.measured import Measured
from gradlab.runs.store.records import MemoryChunk, Records
from gradlab.trials.outcome import Curve, LayerTable, Outcome, TrialResult

Numbers = Mapping[str, float | int | None]
GRID = {"model.depth": [2, 5, 30], "model.skip": ["none", "identity"]}


def measured(study: dict[str, Any], outcome: Any, seeds: int = 5) -> Measured:
    """Make a study with the outcomes of `outcome(settings, seed)`: metrics, and curves by name."""
    plan = gradlab.plan({"question": "Which?", **study}, seeds=seeds)
    settings = {planned.group.name: planned.group.settings for planned in plan.groups}
    results = []
    for trial in plan.trials:
        metrics, curves = outcome(settings[trial.group], trial.seed)
        drawn = tuple(
            Curve(name, np.arange(1, len(values) + 1) * 2, np.array(values, float)) for name, values in curves.items()
        )
        table = LayerTable(np.empty(0, int), np.empty(0, int), (), np.empty(0))
        metrics = {"initial_loss": _first_loss(trial.seed), **metrics}
        results.append(TrialResult(trial, Outcome("done", metrics, drawn, table, np.empty(0))))
    return Measured(plan, Records([MemoryChunk.of(results)]))


def _first_loss(seed: int) -> float:
    """Networks of different seeds begin differently, so that none is taken for a copy of another."""
    return 2.3 + seed / 997


def mnist(**sections: Any) -> dict[str, Any]:
    return {
        "base": {
            "data": {"task": "mnist", "train": 20, "validation": 0, "test": 10},
            "model": {"depth": 2, "width": 8},
            "train": {"loss": "cross_entropy", "optimizer": "sgd", "lr": 0.1, "batch": 10, "epochs": 3},
        },
        **sections,
    }


def mixture(settings: Mapping[str, Any], seed: int) -> tuple[Numbers, dict[str, list[float]]]:
    """Deep plain networks collapse, except for seed 3, which recovers in the last epoch."""
    deep = settings["model.depth"] == 30 and settings["model.skip"] == "none"
    curve = [0.1, 0.1, 0.1] if deep else [0.6, 0.8, 0.9]
    curve = [0.1, 0.1, 0.7] if deep and seed == 3 else curve
    return {
        "test_accuracy": curve[-1],
        "collapsed": int(curve[-1] <= 0.15),
        "seconds_per_epoch": settings["model.depth"] * (1.2 if settings["model.skip"] == "identity" else 1.0),
    }, {"test_accuracy": curve}


def ended(study: dict[str, Any], metric: str, groups: Mapping[str, list[Any]]) -> Measured:
    """A study whose seeds ended so: with this number of the metric, None (it ran, and has none), or in one of the words
    `diverged`, `failed`, `missing`.
    """
    plan = gradlab.plan({"question": "Which?", **study}, seeds=max(map(len, groups.values())))
    results = []
    table = LayerTable(np.empty(0, int), np.empty(0, int), (), np.empty(0))
    for trial in plan.trials:
        how = groups[trial.group][trial.seed]
        if how == "missing":
            continue
        if how == "failed":
            results.append(TrialResult(trial, None, "it broke"))
            continue
        status: Any = "diverged" if how == "diverged" else "done"
        numbers: Numbers = {"initial_loss": _first_loss(trial.seed), metric: None if isinstance(how, str) else how}
        results.append(TrialResult(trial, Outcome(status, numbers, (), table, np.empty(0))))
    return Measured(plan, Records([MemoryChunk.of(results)]))
