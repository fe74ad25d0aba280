"""The difference between two engines."""

from __future__ import annotations

import numpy as np

from gradlab.network.mlp import MLP
from gradlab.trials import Outcome


def difference(mlp: MLP, a: np.ndarray, b: np.ndarray, *, skip_biases: bool = False) -> float:
    """Largest norm-wise relative difference over tensors, with an absolute floor."""
    whole = float(np.linalg.norm(a))
    worst = 0.0
    for slot in mlp.layout.slots:
        if skip_biases and slot.role in ("bias", "shift"):
            continue
        left, right = slot.view(a), slot.view(b)
        worst = max(worst, float(np.linalg.norm(left - right)) / max(float(np.linalg.norm(left)), 1e-3 * whole))
    return worst


def losses(outcome: Outcome) -> np.ndarray:
    return outcome.curves[0].values
