"""A check, and how one is made from a function that asserts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.errors import described

Array = NDArray[Any]


@dataclass(frozen=True)
class Check:
    """What was checked, and what was wrong (None: nothing)."""

    what: str
    problem: str | None


@dataclass(frozen=True)
class PartReport:
    """All checks of one part."""

    kind: str
    name: str
    checks: tuple[Check, ...]

    @property
    def problems(self) -> list[str]:
        """Those that failed."""
        return [f"{check.what}: {check.problem}" for check in self.checks if check.problem is not None]


def check(what: str, body: Callable[[], None]) -> Check:
    """Run a body that raises where the contract is broken."""
    try:
        with np.errstate(all="ignore"):
            body()
    except AssertionError as error:
        return Check(what, str(error) or "does not hold")
    except (Exception, SystemExit) as error:  # a user's part can fail in any way
        return Check(what, described(error))
    return Check(what, None)


def require(holds: bool | np.bool_, message: str) -> None:
    """Raise with this message unless it holds."""
    if not holds:
        raise AssertionError(message)


def unchanged(arrays: list[Array], body: Callable[[], object]) -> None:
    """Require that the body leaves these arrays as they are."""
    before = [array.copy() for array in arrays]
    body()
    for old, new in zip(before, arrays, strict=True):
        require(np.array_equal(old, new, equal_nan=True), "changes an array that it was given")


def random(shape: tuple[int, ...], seed: int = 0) -> NDArray[np.float64]:
    """Standard normal numbers for a check."""
    return np.random.default_rng(seed).standard_normal(shape)
