"""What every loss has to keep."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradlab.network.losses.base import Loss
from gradlab.testing.base import Check, check, random, require, unchanged
from gradlab.testing.trained import engines_agree


def checks(part: Loss) -> Iterator[Check]:
    """Purity, gradient, agreement of its two forms."""
    output = random((5, 4))
    target = np.array([0, 3, 1, 1, 2]) if part.targets == "classes" else random((5, 4), 1)

    def gradient() -> None:
        _, analytic = part.value_and_gradient(output, target)
        numeric, h = np.empty_like(output), 1e-6
        for index in np.ndindex(output.shape):
            step = np.zeros_like(output)
            step[index] = h
            numeric[index] = (part.value(output + step, target) - part.value(output - step, target)) / (2 * h)
        error = float(np.linalg.norm(analytic - numeric) / np.linalg.norm(numeric))
        require(error < 1e-7, f"the gradient differs from central differences by {error:.1e}")

    def same() -> None:
        a, b = part.value(output, target), part.value_and_gradient(output, target)[0]
        require(abs(a - b) <= 1e-12 * abs(b), f"value gives {a}, value_and_gradient {b}")

    yield check(
        "does not change its input", lambda: unchanged([output], lambda: part.value_and_gradient(output, target))
    )
    yield check("gradient is right", gradient)
    yield check("value and value_and_gradient agree", same)
    yield engines_agree(part)
