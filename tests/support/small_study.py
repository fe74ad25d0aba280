"""A small sound study of two arms, and what the audit finds in variations of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gradlab
from gradlab.spec.paths import with_all

BASE: dict[str, Any] = {
    "data": {"task": "moons", "samples": 64, "test": 120},
    "model": {"depth": 3, "width": 6, "init": "he_normal"},
    "train": {"loss": "cross_entropy", "optimizer": "adam", "lr": 0.01, "batch": 16, "epochs": 2},
}


def study(changes: Mapping[str, Any] | None = None, **sections: Any) -> dict[str, Any]:
    arms = {"plain": {}, "residual": {"model.skip": "identity"}}
    return {
        "question": "Does the skip help?", "factor": "model.skip", "base": with_all(BASE, changes or {}), "arms": arms,
        "seeds": 2, "headline": {"metric": "test_accuracy"}, **sections,
    }  # fmt: skip


def claims(*written: Mapping[str, Any]) -> dict[str, Any]:
    given = {"metric": "test_accuracy", "arms": ["residual", "plain"], "op": ">"}
    return study(claims=[{**given, **claim} for claim in written])


def failed(tree: Any) -> set[str]:
    return {finding.code for finding in gradlab.audit(tree).findings if finding.severity == "problem"}
