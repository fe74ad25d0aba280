"""The data sets that come with scikit-learn, where it is installed; iris (Fisher 1936) is inside this package."""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from gradlab.data.base import Dataset, Facts, Task
from gradlab.errors import DataError

IRIS = Path(__file__).with_name("iris.csv")
Name = Literal["digits", "wine", "iris", "breast_cancer", "diabetes"]
Fraction = Annotated[float, Field(ge=0, lt=1)]
INSTALL = "scikit-learn is not installed, and its data sets come with it: pip install scikit-learn"
SETS: dict[str, tuple[int, int, int | None]] = {
    "digits": (1797, 64, 10),
    "wine": (178, 13, 3),
    "iris": (150, 4, 3),
    "breast_cancer": (569, 30, 2),
    "diabetes": (442, 10, None),
}
"""Rows, columns, classes."""


class Scikit(Task):
    """A data set of scikit-learn, unscaled: digits, wine, iris, breast_cancer or diabetes (a regression)."""

    name = "scikit"
    set: Name = "iris"
    validation: Fraction = 0.0
    """Share of the rows."""
    test: Fraction = 0.2
    """Share of the rows; 0 trains on all of them."""

    def facts(self) -> Facts:
        """Fixed sizes."""
        _require(self.set)
        rows, columns, classes = SETS[self.set]
        train, validation, test = self._sizes(rows)
        size = 3 * 8 * rows * columns
        return Facts(columns, classes or 1, train, classes, size, validation=validation, test=test)

    def _sizes(self, rows: int) -> tuple[int, int, int]:
        test, validation = round(self.test * rows), round(self.validation * rows)
        return rows - test - validation, validation, test

    def fingerprint(self) -> str:
        """The hash of the arrays."""
        x, y = read(self.set)
        return sha256(x.tobytes() + y.tobytes()).hexdigest()

    def source(self) -> str:
        """All rows, whatever the split."""
        return f"scikit {self.set}"

    def read(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Inputs and targets."""
        return read(self.set)

    def load(self, samples: np.random.Generator, split: np.random.Generator) -> Dataset:
        """Shuffle the rows by the split's stream, then cut."""
        x, y = self.stored()
        classes = SETS[self.set][2]
        order = split.permutation(len(x))
        train, validation, _ = self._sizes(len(x))
        parts = np.split(order, [train, train + validation])
        return Dataset(x, y, train=parts[0], validation=parts[1], test=parts[2], classes=classes)


def _require(name: str) -> None:
    if name != "iris" and find_spec("sklearn") is None:
        raise DataError(INSTALL)


@lru_cache(maxsize=4)
def read(name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Inputs in float64; class numbers, or values of one column."""
    _require(name)
    if name == "iris":
        table = np.loadtxt(IRIS, delimiter=",")
        return np.ascontiguousarray(table[:, :4]), table[:, 4].astype(np.int64)
    from sklearn import datasets

    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    targets = y.astype(np.int64) if SETS[name][2] is not None else np.asarray(y, np.float64)[:, None]
    return np.ascontiguousarray(x, np.float64), targets
