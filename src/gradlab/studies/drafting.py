"""Write the first version of a study: short, commented, valid, and ready to change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gradlab.data.base import Task
from gradlab.parts import BUILT_IN
from gradlab.spec import yaml_text
from gradlab.studies.loading import plan

MODEL: Mapping[str, Any] = {"depth": 10, "width": 64, "activation": "relu", "skip": "none", "init": "he_normal"}
EXAMPLES: Mapping[str, tuple[Any, Any]] = {
    "model.skip": ("none", "identity"),
    "model.activation": ("relu", "tanh"),
    "model.norm": ("none", "layer"),
    "model.init": ("torch_default", "he_normal"),
    "model.depth": (4, 16),
    "model.width": (32, 128),
    "model.dropout": (0, 0.5),
    "train.optimizer": ("sgd", "adam"),
    "train.lr": (1e-3, 1e-2),
    "train.batch": (32, 128),
}
"""What `gradlab new --vary` knows two values of."""


def draft(
    task: str = "mnist",
    vary: str = "model.skip",
    values: Sequence[Any] = (),
    *,
    model: Mapping[str, Any] | None = None,
    steps: int = 1000,
    seeds: int = 5,
    unread: Sequence[str] = (),
) -> str:
    """Return the YAML text of a study; it is planned once, so that what is refused is refused here."""
    chosen = list(values) or list(EXAMPLES.get(vary, ()))
    facts = (made := _task(task)).facts()
    small = {"train": 5000, "validation": 1000, "test": 1000} if task == "mnist" else {}
    fields = dict(MODEL if model is None else model)
    section, _, field = vary.partition(".")
    train = {
        "loss": "cross_entropy" if facts.classes is not None else "mse",
        "optimizer": "adam", "lr": 0.001, "batch": min(64, facts.samples), "steps": steps,
    }  # fmt: skip
    base: dict[str, Any] = {"data": {"task": made.name, **small}, "model": fields, "train": train}
    if chosen and field in ("depth", "width"):
        base.get(section, {}).pop("widths", None)
    tree = {
        "question": f"Does {field.replace('_', ' ')} matter here?",
        "base": base,
        "axes": {vary: chosen},
        "seeds": seeds,
        "measure": {"layers": ["start", "end"]},
        "headline": {"metric": "test_accuracy" if facts.classes is not None and facts.test else "final_loss"},
        "quick": {"seeds": 2, "train.steps": min(steps, 100)},
    }
    plan(tree)
    comments = {
        "question": "what the answer is about, in one sentence",
        "base": "what all networks share; docs/reference/study-fields.md has every field",
        "axes": "every value is a group; arms: gives groups names and several settings at once",
        "seeds": "paired: every group is trained with each; or {from: 5, to: 50, until: settled}",
        "measure": "when the layers are looked into; add log for steps 1, 2, 4, 8, …",
        "headline": "the number that answers the question; add claims: to have sentences judged",
        "quick": "what --quick changes",
    }
    lines = [f"# not read from the model: {reason}" for reason in unread]
    for key, value in tree.items():
        lines += [f"# {comments[key]}", yaml_text.dump({key: value}).rstrip()]
    return "\n".join(lines) + "\n"


def _task(name: str) -> Task:
    made: Task = BUILT_IN.make("task", name, {})
    return made
