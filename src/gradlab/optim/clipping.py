"""Gradient clipping by global norm."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def clip_gradient(gradient: NDArray[Any], largest: float | None) -> NDArray[Any]:
    """Return g · min(1, c/(‖g‖ + 10⁻⁶)), PyTorch's definition; the norm covers all parameters, in float64."""
    if largest is None:
        return gradient
    norm = float(np.linalg.norm(gradient.astype(np.float64)))
    factor = largest / (norm + 1e-6)
    return gradient * factor if not factor >= 1 else gradient
