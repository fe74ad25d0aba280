"""What happens inside two arms while they train: inspections of both at one seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from gradlab.report.inside.inspection import Inspection


@dataclass(frozen=True)
class Recording:
    """Inspections of two arms at one seed, at the same steps if both have them."""

    arms: tuple[str, str]
    seed: int
    formulas: tuple[str, str]
    """The forward pass of a block, of each arm."""
    inspections: tuple[tuple[Inspection, ...], tuple[Inspection, ...]]
    """Of each arm, in the order of steps."""
    same_bits: bool | None
    """Whether the last inspected parameters are those that the run kept; None if it kept none."""

    def to_json(self) -> dict[str, Any]:
        """Plain data with six digits per number."""
        return {
            "arms": list(self.arms),
            "seed": self.seed,
            "formulas": list(self.formulas),
            "same_bits": self.same_bits,
            "frames": [[_to_plain(one) for one in arm] for arm in self.inspections],
        }

    @property
    def steps(self) -> list[int]:
        """The inspected steps; an arm with a smaller budget stops at its own last one."""
        return [one.step for one in max(self.inspections, key=len)]

    @staticmethod
    def from_json(tree: Mapping[str, Any]) -> Recording:
        """The recording that a run's folder keeps."""
        first, second = ([_from_plain(one) for one in arm] for arm in tree["frames"])
        return Recording(
            (tree["arms"][0], tree["arms"][1]),
            tree["seed"],
            (tree["formulas"][0], tree["formulas"][1]),
            (tuple(first), tuple(second)),
            tree["same_bits"],
        )


def _to_plain(one: Inspection) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for field in fields(one):
        value = getattr(one, field.name)
        tree[field.name] = _round(value) if isinstance(value, np.ndarray) else value
    return tree


def _round(values: Any) -> Any:
    if values.ndim > 1:
        return [_round(row) for row in values]
    return [None if np.isnan(v) else float(f"{v:.6g}") if np.isfinite(v) else str(v) for v in values.tolist()]


def _from_plain(tree: Mapping[str, Any]) -> Inspection:
    made: dict[str, Any] = {
        key: np.array(_parse_numbers(value), float) if isinstance(value, list) else value for key, value in tree.items()
    }
    made["loss"] = float(made["loss"])
    return Inspection(**made)


def _parse_numbers(values: Any) -> Any:
    if isinstance(values, list):
        return [_parse_numbers(value) for value in values]
    return np.nan if values is None else float(values)
