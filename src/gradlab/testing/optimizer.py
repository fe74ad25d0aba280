"""What every optimizer has to keep."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradlab.optim.optimizers.base import Optimizer
from gradlab.testing.base import Check, check, random, require, unchanged
from gradlab.testing.trained import engines_agree


def checks(part: Optimizer) -> Iterator[Check]:
    """Purity, dtype, descent."""

    def pure() -> None:
        theta, gradient = random((8,)), random((8,), 1)
        state = part.init(theta)
        _, state = part.update(gradient, state, theta, 0.1)
        arrays = [theta, gradient, *(value for value in state.values() if isinstance(value, np.ndarray))]
        unchanged(arrays, lambda: part.update(gradient, state, theta, 0.1))

    def keeps_dtype() -> None:
        theta = random((8,)).astype(np.float32)
        delta, state = part.update(theta, part.init(theta), theta, 0.1)
        require(delta.dtype == np.float32, f"gives {delta.dtype} for float32")
        for name, value in state.items():
            if isinstance(value, np.ndarray):
                require(value.dtype == np.float32, f"keeps {name} as {value.dtype} for float32")

    def descends() -> None:
        theta = random((8,))
        start, state = float(theta @ theta), part.init(theta)
        for _ in range(300):
            delta, state = part.update(2 * theta, state, theta, 0.01)
            theta = theta + delta
        require(float(theta @ theta) < 0.5 * start, "300 steps on a bowl do not halve its value")

    yield check("does not change what it is given", pure)
    yield check("keeps float32", keeps_dtype)
    yield check("goes downhill", descends)
    yield engines_agree(part)
