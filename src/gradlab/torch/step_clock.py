"""Notice steps of an optimizer that no hook tells of: compiled ones, and those of optimizers without hooks.

A hook inside a compiled step is compiled away. What is left to see is that weights have changed since the last backward
pass; a few entries of a few of them are compared, and only if no hook has told of a step meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradlab.torch import statistics
from torch import Tensor

TENSORS, ENTRIES = 4, 64


class StepClock:
    """Knows whether weights have moved since the last backward pass."""

    def __init__(self, optimizers: Sequence[Any]) -> None:
        self._optimizers = optimizers
        self._heard = True
        self._seen: list[Tensor] = []
        self.infers = False
        """Whether steps were noticed that no hook told of."""

    def hear(self) -> None:
        """A step was told of."""
        self._heard = True

    def mark_backward(self) -> None:
        """A backward pass begins: compare with the weights of this moment later on."""
        if self._heard:
            self._seen = self._look()
        self._heard = False

    def has_stepped_unheard(self) -> bool:
        """Whether weights have moved since, although no step was told of."""
        if self._heard or not self._seen:
            return False
        now = self._look()
        moved = any(a.shape == b.shape and not bool((a == b).all()) for a, b in zip(self._seen, now, strict=False))
        if moved:
            self._seen, self.infers = now, True
        return moved

    def _look(self) -> list[Tensor]:
        held = [p for group in self._optimizers[-1].param_groups for p in group["params"] if p.requires_grad]
        stride = max(1, len(held) // TENSORS)
        return [statistics.sample_entries(p.detach(), ENTRIES)[:ENTRIES].clone() for p in held[::stride][:TENSORS]]
