"""What every activation has to keep."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradlab.network.activations.base import Activation
from gradlab.testing.base import Check, check, random, require, unchanged
from gradlab.testing.small import require_right_gradient, small_model
from gradlab.testing.trained import engines_agree


def checks(part: Activation) -> Iterator[Check]:
    """Shape and dtype, purity, slope, NaN."""

    def keeps_shape_and_dtype() -> None:
        for dtype in (np.float32, np.float64):
            x = random((5, 3)).astype(dtype)
            y = part.forward(x)
            require(
                y.shape == x.shape and y.dtype == dtype, f"forward gives {y.shape} {y.dtype} for {x.shape} {x.dtype}"
            )
            slope = part.slope(x, y)
            require(slope.shape == x.shape and slope.dtype == dtype, f"slope gives {slope.shape} {slope.dtype}")

    def slope_is_derivative() -> None:
        x = np.linspace(-3.03, 3.01, 200)
        h = 1e-6
        numeric = (part.forward(x + h) - part.forward(x - h)) / (2 * h)
        error = float(np.abs(part.slope(x, part.forward(x)) - numeric).max())
        require(error < 1e-7, f"slope differs from the central difference by up to {error:.1e}")

    def nan_goes_through() -> None:
        y = part.forward(np.array([np.nan, 1.0]))
        require(bool(np.isnan(y[0])) and bool(np.isfinite(y[1])), "forward(NaN) is not NaN: divergence would be hidden")

    x = random((4, 3))
    yield check("keeps shape and dtype (float32, float64)", keeps_shape_and_dtype)
    yield check("does not change its input", lambda: unchanged([x], lambda: part.slope(x, part.forward(x))))
    yield check("slope is the derivative of forward", slope_is_derivative)
    yield check("NaN goes through", nan_goes_through)
    yield check("a network's gradient is right with it", lambda: require_right_gradient(small_model(part)))
    yield engines_agree(part)
