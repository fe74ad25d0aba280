"""Convert what a training function returned to an outcome: numbers, curves, and the layers of a watch."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from gradlab.errors import InvalidInput, shortened
from gradlab.runs.store.tables import COLUMNS
from gradlab.spec.metric import infer
from gradlab.trials.outcome import Curve, LayerTable, Outcome

MAX_NUMBER = int(sys.float_info.max)
"""Larger integers have no floating-point value."""
ACCEPTED = "numbers, lists of numbers (a curve over steps 1, 2, …), {step: number}, or a watch"


@runtime_checkable
class LayerSource(Protocol):
    """An object that recorded layers during training, such as a `gradlab.watch`."""

    def layer_table(self) -> LayerTable:
        """Layer measures by step."""

    @property
    def layer_names(self) -> tuple[str, ...]:
        """The names of layers 1, 2, …"""

    def close(self) -> None:
        """Remove all hooks."""


ACTIVE_WATCHES: WeakSet[LayerSource] = WeakSet()
"""Watches that are currently active."""


def find_layer_names(returned: Any) -> tuple[str, ...]:
    """Return the layer names of a returned watch."""
    values = returned.values() if isinstance(returned, Mapping) else ()
    return next((value.layer_names for value in values if isinstance(value, LayerSource)), ())


def make_outcome(returned: Any) -> Outcome:
    """Return the outcome of a trial; `InvalidInput` names an entry that cannot be stored.

    The last value of a curve is the metric of that name. A non-finite loss, at the end or on the way, is divergence.
    """
    if not isinstance(returned, Mapping):
        number = _to_number(returned)
        if number is None and returned is not None:
            raise InvalidInput(f"the function returned {shortened(returned)}; it must return names with {ACCEPTED}")
        returned = {"score": returned}
    metrics: dict[str, float | int | None] = {}
    curves: list[Curve] = []
    layers: list[LayerTable] = []
    for raw, value in returned.items():
        name = _clean_name(raw)
        if isinstance(value, LayerSource):
            layers.append(value.layer_table())
        elif value is None or _to_number(value) is not None:
            metrics[name] = None if value is None else _to_number(value)
        else:
            curve = _to_curve(name, value)
            curves.append(curve)
            metrics[name] = float(curve.values[-1]) if len(curve.values) else None
    diverged_step = _find_divergence(curves)
    if diverged_step is not None:
        metrics.setdefault("diverged_step", diverged_step)
    status = "done" if diverged_step is None and not _has_nonfinite_loss(metrics) else "diverged"
    return Outcome(status, metrics, tuple(curves), _get_single_table(layers), np.empty(0))  # type: ignore[arg-type]


def _clean_name(name: Any) -> str:
    """Clean a metric name: `train/loss` becomes `train.loss` (a slash divides metrics), `seed` `returned_seed`."""
    if not isinstance(name, str) or not name or len(name) > 80 or not name.isprintable():
        raise InvalidInput(f"the function returned a value under {shortened(name)}; use short printable names")
    word = name.replace("/", ".")
    return f"returned_{word}" if word in COLUMNS else word


def _to_number(value: Any) -> float | int | None:
    """Return a Python number for any number, including NumPy's and PyTorch's; None for anything else."""
    if isinstance(value, bool | int | float):
        if isinstance(value, int) and abs(value) > MAX_NUMBER:
            raise InvalidInput(
                f"the function returned an integer of {len(hex(abs(value))) - 2} hexadecimal digits, which exceeds the "
                "floating-point range; return its logarithm"
            )
        return int(value) if isinstance(value, bool) else value
    if isinstance(value, str | bytes) or not hasattr(value, "item"):
        return None
    if getattr(value, "ndim", 0) != 0:
        return None
    number = value.item()
    return _to_number(number) if isinstance(number, bool | int | float) else None


def _to_curve(name: str, value: Any) -> Curve:
    try:
        if isinstance(value, Mapping):
            steps = np.array([int(step) for step in value], np.int64)
            values = _to_array(value.values())
        else:
            values = _to_array(value)
            steps = np.arange(1, len(values) + 1, dtype=np.int64)
    except (TypeError, ValueError):
        raise InvalidInput(f"the function returned {shortened(value)} under {name!r}; return {ACCEPTED}") from None
    if (np.diff(steps) <= 0).any() or (len(steps) and steps[0] < 0):
        raise InvalidInput(f"the steps under {name!r} must be increasing and start at 0 or later")
    return Curve(name, steps, values)


def _to_array(values: Iterable[Any]) -> NDArray[np.float64]:
    if isinstance(values, str | bytes):
        raise TypeError("text is not a curve")
    found = [_to_number(value) for value in values]
    if any(value is None for value in found):
        raise TypeError("not a number")
    return np.array(found, np.float64)


def _is_loss(name: str) -> bool:
    return infer(name).kind == "loss"


def _find_divergence(curves: Iterable[Curve]) -> int | None:
    """Return the first step at which a loss is not finite."""
    steps = [
        int(curve.steps[~np.isfinite(curve.values)][0])
        for curve in curves
        if _is_loss(curve.metric) and not np.isfinite(curve.values).all()
    ]
    return min(steps, default=None)


def _has_nonfinite_loss(metrics: Mapping[str, float | int | None]) -> bool:
    return any(_is_loss(name) and value is not None and not math.isfinite(value) for name, value in metrics.items())


def _get_single_table(tables: list[LayerTable]) -> LayerTable:
    if len(tables) > 1:
        raise InvalidInput("the function returned several watches; return at most one")
    empty = np.empty(0, np.int64)
    return tables[0] if tables else LayerTable(empty, empty, (), np.empty(0))
