"""Seed the global random number generators for code that uses them."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np


def seed_all(seed: int) -> None:
    """Seed the generators of Python, NumPy and, if it is loaded, PyTorch (on every device)."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(seed)


@dataclass(frozen=True)
class RandomState:
    """The state of every generator that code uses without naming one."""

    python: Any
    numpy: Any
    torch: Any = None
    """None if PyTorch is not loaded."""
    devices: tuple[Any, ...] = ()
    seed: int = 0
    """The seed that PyTorch's generator was last given."""

    @staticmethod
    def take() -> RandomState:
        """The state now."""
        torch = sys.modules.get("torch")
        if torch is None:
            return RandomState(random.getstate(), np.random.get_state())
        devices = tuple(torch.cuda.get_rng_state_all()) if torch.cuda.is_initialized() else ()
        state = torch.get_rng_state()
        return RandomState(random.getstate(), np.random.get_state(), state, devices, torch.initial_seed())

    def put(self) -> None:
        """Continue from here."""
        random.setstate(self.python)
        np.random.set_state(self.numpy)
        if self.torch is not None:
            torch = sys.modules["torch"]
            torch.set_rng_state(self.torch)
            if self.devices:
                torch.cuda.set_rng_state_all(list(self.devices))

    def same(self, other: RandomState) -> bool:
        """Whether the same number of random numbers was drawn from each, devices aside."""
        return self.same_outside_torch(other) and bool(self.torch.equal(other.torch))

    def same_outside_torch(self, other: RandomState) -> bool:
        """Whether the same number of random numbers was drawn from Python's and from NumPy's generator."""
        numpy = all(np.array_equal(a, b) for a, b in zip(self.numpy, other.numpy, strict=True))
        return self.python == other.python and numpy


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed all generators inside the block and restore their states afterwards."""
    before = RandomState.take()
    seed_all(seed)
    try:
        yield
    finally:
        before.put()
