"""What a training function gave back, as an outcome: numbers, curves, and the layers that a watch looked into."""

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

LARGEST = int(sys.float_info.max)
"""Of a number: beyond, it has no floating-point value."""
FORM = "numbers, lists of numbers (a curve over steps 1, 2, …), {step: number}, or a watch"


@runtime_checkable
class Layered(Protocol):
    """Whatever has looked inside while it trained: a `gradlab.watch`."""

    def layer_table(self) -> LayerTable:
        """Layer measures by step."""

    @property
    def layer_names(self) -> tuple[str, ...]:
        """What layers 1, 2, … are called."""

    def close(self) -> None:
        """Let go of whatever is looked at."""


LOOKING: WeakSet[Layered] = WeakSet()
"""All that look inside something now."""


def names_in(returned: Any) -> tuple[str, ...]:
    """The names of the layers that a returned watch looked into."""
    values = returned.values() if isinstance(returned, Mapping) else ()
    return next((value.layer_names for value in values if isinstance(value, Layered)), ())


def outcome_of(returned: Any) -> Outcome:
    """The outcome of a trial; `InvalidInput` says which entry cannot be kept.

    A curve's last value is the metric of its name. A loss that is not finite, at the end or on the way, is divergence.
    """
    if not isinstance(returned, Mapping):
        number = _number(returned)
        if number is None and returned is not None:
            raise InvalidInput(f"the function returned {shortened(returned)}; it has to return names with {FORM}")
        returned = {"score": returned}
    metrics: dict[str, float | int | None] = {}
    curves: list[Curve] = []
    layers: list[LayerTable] = []
    for raw, value in returned.items():
        name = _kept_name(raw)
        if isinstance(value, Layered):
            layers.append(value.layer_table())
        elif value is None or _number(value) is not None:
            metrics[name] = None if value is None else _number(value)
        else:
            curve = _curve(name, value)
            curves.append(curve)
            metrics[name] = float(curve.values[-1]) if len(curve.values) else None
    broken = _diverged(metrics, curves)
    if broken is not None:
        metrics.setdefault("diverged_step", broken)
    status = "done" if broken is None and not _lost(metrics) else "diverged"
    return Outcome(status, metrics, tuple(curves), _joined(layers), np.empty(0))  # type: ignore[arg-type]


def _kept_name(name: Any) -> str:
    """A short word; `train/loss` is kept as `train.loss` (a slash divides metrics), `seed` as `returned_seed`."""
    if not isinstance(name, str) or not name or len(name) > 80 or not name.isprintable():
        raise InvalidInput(f"the function returned a value under {shortened(name)}; names are short words")
    word = name.replace("/", ".")
    return f"returned_{word}" if word in COLUMNS else word


def _number(value: Any) -> float | int | None:
    """A Python number of anything that is one, NumPy's and PyTorch's included; None of anything else."""
    if isinstance(value, bool | int | float):
        if isinstance(value, int) and abs(value) > LARGEST:
            raise InvalidInput(
                f"the function returned a whole number of {len(hex(abs(value))) - 2} hexadecimal digits, beyond all "
                "floating-point numbers; return its logarithm"
            )
        return int(value) if isinstance(value, bool) else value
    if isinstance(value, str | bytes) or not hasattr(value, "item"):
        return None
    if getattr(value, "ndim", 0) != 0:
        return None
    number = value.item()
    return _number(number) if isinstance(number, bool | int | float) else None


def _curve(name: str, value: Any) -> Curve:
    try:
        if isinstance(value, Mapping):
            steps = np.array([int(step) for step in value], np.int64)
            values = _array(value.values())
        else:
            values = _array(value)
            steps = np.arange(1, len(values) + 1, dtype=np.int64)
    except (TypeError, ValueError):
        raise InvalidInput(f"the function returned {shortened(value)} under {name!r}; kept are {FORM}") from None
    if (np.diff(steps) <= 0).any() or (len(steps) and steps[0] < 0):
        raise InvalidInput(f"the steps under {name!r} have to grow, from 0 on")
    return Curve(name, steps, values)


def _array(values: Iterable[Any]) -> NDArray[np.float64]:
    if isinstance(values, str | bytes):
        raise TypeError("words are no curve")
    found = [_number(value) for value in values]
    if any(value is None for value in found):
        raise TypeError("not a number")
    return np.array(found, np.float64)


def _is_loss(name: str) -> bool:
    return infer(name).kind == "loss"


def _diverged(metrics: Mapping[str, float | int | None], curves: Iterable[Curve]) -> int | None:
    """The first step at which a loss is not finite."""
    steps = [
        int(curve.steps[~np.isfinite(curve.values)][0])
        for curve in curves
        if _is_loss(curve.metric) and not np.isfinite(curve.values).all()
    ]
    return min(steps, default=None)


def _lost(metrics: Mapping[str, float | int | None]) -> bool:
    return any(_is_loss(name) and value is not None and not math.isfinite(value) for name, value in metrics.items())


def _joined(tables: list[LayerTable]) -> LayerTable:
    if len(tables) > 1:
        raise InvalidInput("the function returned several watches; a trial has one")
    empty = np.empty(0, np.int64)
    return tables[0] if tables else LayerTable(empty, empty, (), np.empty(0))
