"""A small study of which one arm diverges: its curves hold numbers that are not finite."""

from __future__ import annotations

from typing import Any

from gradlab.testing.base import small_tree


def diverging_tree() -> dict[str, Any]:
    """Two arms of two seeds; the wild one ends in NaN or infinity."""
    tree = {**small_tree(), "figures": [], "seeds": 2}
    tree["base"]["train"] |= {"optimizer": "sgd", "steps": 60, "precision": "float32"}
    tree["base"]["model"] |= {"activation": "leaky_relu"}
    tree["arms"] = {"tame": {"train.lr": 0.01}, "wild": {"train.lr": 1e6}}
    tree.pop("factor", None)
    return tree
