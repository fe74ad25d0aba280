"""Small whole trials and results for the checks of engines and figures."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from gradlab.analysis.measured import Measured
from gradlab.analysis.tuning import settle
from gradlab.plans.code import code_plan
from gradlab.plans.plan import make_plan
from gradlab.plans.tuning import judged_phase, plan_study
from gradlab.runs.store.chunks import MemoryChunk
from gradlab.runs.store.records import Records
from gradlab.runs.worker import run_trial
from gradlab.spec.code import Code, CodeStudy
from gradlab.spec.files import resolve
from gradlab.trials.outcome import Curve, LayerTable, Outcome
from gradlab.trials.result import TrialResult
from gradlab.trials.setup import Setup, prepare
from gradlab.trials.trial import TrialLabel


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
    """The first trial of the small study, realized."""
    tree = {**small_tree(**model), "arms": None}
    return prepare(make_plan(resolve(tree, "contract")).trials[0])


@cache
def small_result() -> Measured:
    """The small study, run."""
    return _run(small_tree())


@cache
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


@cache
def small_tuning() -> Measured:
    """Two arms, each at its own best of three learning rates."""
    tune = {"train.lr": [1e-3, 1e-2, 1e-1], "seeds": 2, "by": "final_loss"}
    pending = plan_study(resolve({**small_tree(), "tune": tune}, "contract"))
    assert pending.tuning is not None
    tried = Records([MemoryChunk.of([run_trial(trial) for trial in pending.tuning.plan.trials])])
    plan = settle(pending, tried)
    judged = MemoryChunk.of([run_trial(trial) for trial in judged_phase(plan).trials])
    return Measured(plan, Records([*tried.chunks, judged]))


@cache
def small_comparison() -> Measured:
    """Two arms of somebody's own code, with a curve of its own and no layers."""
    code = Code(function="train", sha256="0" * 64, text="def train(rate, seed): ...")
    study = CodeStudy(question="Does it compare?", arms={"slow": {"rate": 1}, "fast": {"rate": 2}}, seeds=2, code=code)
    plan = code_plan(study, "none")
    rates = {arm.group.name: float(arm.group.settings["rate"]) for arm in plan.groups}
    return Measured(plan, Records([MemoryChunk.of([_called(trial, rates[trial.group]) for trial in plan.trials])]))


def _called(trial: TrialLabel, rate: float) -> TrialResult:
    steps, none = np.arange(1, 9), np.empty(0, np.int64)
    curve = Curve("reward", steps, np.array([rate * step + 0.1 * trial.seed for step in steps], np.float64))
    layers = LayerTable(none, none, (), np.empty(0))
    return TrialResult(trial, Outcome("done", {"reward": float(curve.values[-1])}, (curve,), layers, np.empty(0)))
