"""Seed the global random number generators for code that uses them."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np


def seed_all(seed: int) -> None:
    """Seed the generators of Python, NumPy and, if it is loaded, PyTorch (on every device)."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    if (torch := _torch()) is not None:
        torch.manual_seed(seed)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed all generators inside the block and restore their states afterwards."""
    python, numpy, torch = random.getstate(), np.random.get_state(), _torch()
    state = None if torch is None else torch.get_rng_state()
    devices = torch.cuda.get_rng_state_all() if torch is not None and torch.cuda.is_initialized() else None
    seed_all(seed)
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        if torch is not None and state is not None:
            torch.set_rng_state(state)
            if devices is not None:
                torch.cuda.set_rng_state_all(devices)


def _torch() -> Any:
    return sys.modules.get("torch")
