"""A study whose trials take some milliseconds on the reference engine, which needs no compiler to start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gradlab.runs.store.folder import committed
from gradlab.testing.base import small_tree


def long_tree(seeds: int, steps: int) -> dict[str, Any]:
    """Two arms with so many seeds and steps; nothing is drawn."""
    tree = {**small_tree(), "seeds": seeds, "figures": [], "measure": {"layers": ["end"]}}
    tree["base"]["train"] |= {"engine": "reference", "steps": steps}
    return tree


def committed_trials(run: Path) -> list[str]:
    """Return the ids of all rows in all chunks of a run, each as often as it was committed."""
    return [row for chunk in committed(run)[0].chunks for row in chunk.table("trials")["trial"].to_pylist()]
