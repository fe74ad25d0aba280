"""Scalars over steps: the loss that was heard of or logged, and whatever else the user logs.

Tensors are kept as they come and turned into numbers later, so that a GPU is not waited for at every step.
"""

from __future__ import annotations

import math
from typing import Any

from gradlab.errors import InvalidInput, shortened
from torch import Tensor

FLUSH = 256
"""Waiting tensors beyond which they are read."""


class Scalars:
    """Curves by name."""

    def __init__(self) -> None:
        self._curves: dict[str, dict[int, float]] = {}
        self._fresh: dict[str, dict[int, float]] = {}
        """What was read since it was last taken."""
        self._waiting: list[tuple[int, str, list[Any], float]] = []

    def add(self, step: int, name: str, values: list[Any], scale: float = 1.0) -> None:
        """Keep the mean of some values at a step; a later call for the same step replaces it."""
        self._waiting.append((step, name, values, scale))
        if len(self._waiting) > FLUSH:
            self.flush()

    def flush(self) -> None:
        """Read what is waiting."""
        waiting, self._waiting = self._waiting, []
        for step, name, values, scale in waiting:
            numbers = [float(v.detach().float().mean()) if isinstance(v, Tensor) else float(v) for v in values]
            mean = math.fsum(numbers) / len(numbers) / scale if numbers else math.nan
            for curves in (self._curves, self._fresh):
                curves.setdefault(name, {})[step] = mean

    def take_fresh(self) -> dict[str, dict[int, float]]:
        """Return what has come since the last call, name by name."""
        self.flush()
        fresh, self._fresh = self._fresh, {}
        return fresh

    def curve(self, name: str) -> dict[int, float]:
        """Return one curve, by step."""
        self.flush()
        return dict(sorted(self._curves.get(name, {}).items()))

    @property
    def names(self) -> tuple[str, ...]:
        """All names."""
        self.flush()
        return tuple(self._curves)

    def check(self, name: str, value: Any) -> None:
        """Refuse what is no number."""
        if isinstance(value, Tensor) and value.numel() == 1:
            return
        try:
            float(value)
        except (TypeError, ValueError):
            raise InvalidInput(f"log: {name} must be a number, not {shortened(value)}") from None
