"""Small studies that tune, and results planted for their trials."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradlab.plans.plan import Plan
from gradlab.runs.store.records import MemoryChunk, Records
from gradlab.testing.base import small_tree
from gradlab.trials.outcome import TrialResult
from gradlab.trials.trial import Trial

CLAIM = {"text": "The skip ends lower", "metric": "final_loss", "arms": ["residual", "plain"], "op": "<"}


def tuned_tree(**tune: Any) -> dict[str, Any]:
    """Two arms that train in milliseconds on the reference engine, tuned in the learning rate."""
    tree = small_tree()
    tree["base"]["train"] |= {"engine": "reference"}
    return {
        **tree,
        "name": "tuned",
        "figures": [],
        "measure": {"layers": ["end"]},
        "headline": {"metric": "final_loss"},
        "claims": [CLAIM],
        "tune": {"train.lr": {"log": [1e-4, 1e1], "points": 6}, "seeds": 2, "by": "final_loss", **tune},
    }


def planted_records(plan: Plan, loss: Callable[[Trial], float | str]) -> Records:
    """Results of the trials of a plan with these losses; `diverged` and `failed` are outcomes too, `""` is none."""
    from gradlab.runs.worker import run_trial

    done = {}
    results = []
    for trial in plan.trials:
        told = loss(trial)
        if told == "":
            continue
        if told == "failed":
            results.append(TrialResult(trial, None, "planted"))
            continue
        if trial.group not in done:
            done[trial.group] = run_trial(trial).outcome
        outcome = done[trial.group]
        assert outcome is not None
        results.append(TrialResult(trial, _with_loss(outcome, told), None))
    return Records([MemoryChunk.of(results)])


def _with_loss(outcome: Any, told: float | str) -> Any:
    from dataclasses import replace

    if told == "diverged":
        return replace(outcome, status="diverged")
    return replace(outcome, metrics={**outcome.metrics, "final_loss": told})
