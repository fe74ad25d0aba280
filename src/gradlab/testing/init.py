"""What every init has to keep."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradlab.network.inits.base import Init
from gradlab.testing.base import Check, check, require, unchanged


def checks(part: Init) -> Iterator[Check]:
    """Shape, finiteness, purity, pairing through the inverse CDF."""

    def finite_and_shaped() -> None:
        for shape in ((7, 5), (5, 7), (1, 1), (64, 64)):
            w = part.weights(np.random.default_rng(0).random(shape) + 2.0**-54)
            require(w.shape == shape, f"weights gives shape {w.shape} for {shape}")
            require(bool(np.isfinite(w).all()), "weights are not finite")

    def monotone() -> None:
        values = part.quantile(np.linspace(0.001, 0.999, 200), 10, 20)
        require(bool((np.diff(values) >= 0).all()), "quantile falls somewhere: it is no inverse CDF, arms do not pair")

    u = np.random.default_rng(1).random((6, 4))
    yield check("shape and finiteness", finite_and_shaped)
    yield check("does not change the draw", lambda: unchanged([u], lambda: part.weights(u)))
    yield check(
        "the same draw gives the same weights",
        lambda: require((part.weights(u) == part.weights(u)).all(), "it does not"),
    )
    if part.elementwise:
        yield check("quantile is an inverse CDF", monotone)
