"""Small whole trials and results for the checks of engines and figures."""

from __future__ import annotations

from typing import Any

from gradlab.analysis.measured import Measured
from gradlab.execute.base import run_trial
from gradlab.plan.plan import make_plan
from gradlab.spec.files import resolve
from gradlab.store.chunks import MemoryChunk
from gradlab.store.records import Records
from gradlab.trial.setup import Setup, prepare


def small_tree(**model: Any) -> dict[str, Any]:
    """A study of two arms that trains in milliseconds."""
    return {
        "question": "Does the machinery work?",
        "factor": "model.skip",
        "base": {
            "data": {"task": "identity", "dim": 4, "samples": 32},
            "model": {"depth": 3, "width": 4, "stem": "none", "head": "none", "init": "he_normal", **model},
            "train": {"loss": "mse", "optimizer": "adam", "lr": 0.01, "batch": 8, "steps": 20, "precision": "float64"},
        },
        "arms": {"plain": {}, "residual": {"model.skip": "identity"}},
        "seeds": 2,
        "measure": {"layers": ["start", "log", "end"]},
    }


def small_setup(**model: Any) -> Setup:
    """The first trial of the small study, realised."""
    tree = {**small_tree(**model), "arms": None}
    return prepare(make_plan(resolve(tree, "contract")).trials[0])


def small_result() -> Measured:
    """The small study, run."""
    return _run(small_tree())


def small_sweep() -> Measured:
    """A small grid of classifiers, run."""
    return _run(
        {
            "question": "Does the machinery sweep?",
            "base": {
                "data": {"task": "mnist", "train": 60, "validation": 20, "test": 20},
                "model": {"depth": 2, "width": 6},
                "train": {"loss": "cross_entropy", "optimizer": "adam", "lr": 0.01, "batch": 20, "epochs": 4},
            },
            "axes": {"model.depth": [2, 3, 30], "train.schedule": ["fixed", "cosine"]},
            "seeds": 2,
            "measure": {"layers": ["start", "log", "end"]},
        }
    )


def _run(tree: dict[str, Any]) -> Measured:
    plan = make_plan(resolve(tree, "contract"))
    return Measured(plan, Records([MemoryChunk.of([run_trial(trial) for trial in plan.trials])]))
