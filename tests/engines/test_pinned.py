"""The numbers of one small trial per built-in part stay as they are: layout and engines may change, results may not.

`python tests/engines/test_pinned.py` adds parts that came since; a number that is there is never replaced.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradlab
from gradlab.errors import GradlabError
from gradlab.parts import BUILT_IN
from gradlab.runs.worker import run_trial
from gradlab.trials.trial import Trial

FILE = Path(__file__).with_name("pinned_numbers.json")
PINNED: dict[str, list[float]] = json.loads(FILE.read_text()) if FILE.exists() else {}
FIELDS = {
    "skip": "model.skip", "norm": "model.norm", "activation": "model.activation", "init": "model.init.kind",
    "optimizer": "train.optimizer", "schedule": "train.schedule", "loss": "train.loss", "task": "data",
}  # fmt: skip
CLASS_LOSSES = ("cross_entropy", "binary_cross_entropy", "one_hot_cross_entropy", "one_hot_mse")
CLASS_TASKS = ("circles", "modular_addition", "moons", "parity", "spirals", "xor", "mnist")


def small_trial(kind: str, name: str) -> Trial:
    """Some steps of a small network in float64 on the reference engine, with one part in place of the usual one."""
    task = name if kind == "task" else "spirals" if kind == "loss" and name in CLASS_LOSSES else "identity"
    loss = "cross_entropy" if kind == "task" and name in CLASS_TASKS else "mse"
    tree: dict[str, Any] = {
        "question": "Do the numbers stay?",
        "factor": "train.lr",
        "base": {
            "data": {"task": task},
            "model": {"stem": "linear", "depth": 4, "width": 6, "activation": "tanh", "skip": "none", "norm": "none"}
            | {"head": "linear", "init": {"kind": "he_normal", "bias": "zeros"}},
            "train": {"loss": loss, "optimizer": "adam", "lr": 1e-3, "schedule": "fixed", "batch": 16, "steps": 12}
            | {"precision": "float64", "engine": "reference"},
        },
        "arms": {"a": {}, "b": {"train.lr": 1e-2}},
        "seeds": 1,
    }  # fmt: skip
    if kind != "task":
        where = FIELDS[kind].split(".")
        place = tree["base"]
        for key in where[:-1]:
            place = place[key]
        place[where[-1]] = name
    return gradlab.plan(tree).trials[-1]


def numbers_of(kind: str, name: str) -> list[float]:
    """Losses, and sizes of the gradients and of δ at the start and at the end."""
    outcome = run_trial(small_trial(kind, name)).outcome
    assert outcome is not None
    assert outcome.status == "done"
    table = outcome.layers
    sizes = [
        float(np.sum([v for m, v in zip(table.measure, table.value, strict=True) if m == measure]))
        for measure in ("grad_l2", "delta_l2")
    ]
    return [*(float(outcome.metrics[name] or 0) for name in ("initial_loss", "final_loss")), *sizes]


@pytest.mark.parametrize("part", PINNED)
def test_the_numbers_of_a_small_trial_are_those_of_the_first_version(part: str) -> None:
    assert numbers_of(*part.split(" ")) == pytest.approx(PINNED[part], rel=1e-8, abs=1e-300)


def add_missing() -> None:
    """Pin the parts that are not pinned and that train with their default parameters."""
    for kind in FIELDS:
        for name in BUILT_IN.names(kind):
            if f"{kind} {name}" in PINNED:
                continue
            try:
                PINNED[f"{kind} {name}"] = numbers_of(kind, name)
            except (GradlabError, AssertionError):
                continue  # it wants parameters, a file or validation samples
    FILE.write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in PINNED.items()) + "\n}\n")


if __name__ == "__main__":
    add_missing()
