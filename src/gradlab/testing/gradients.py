"""Analytic gradients of a whole network against central differences."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.network.losses.base import Loss
from gradlab.network.mlp import MLP

TOLERANCE = 1e-7
FLOOR = 1e-3
"""Differences are relative to the tensor's own norm, but at least to this share of the whole gradient's: some
gradients are zero in exact arithmetic (a bias in front of a batch norm)."""
STEP = 2e-4
"""About the fifth root of float64's epsilon, where truncation and rounding of the four-point rule balance."""

Array = NDArray[Any]


def analytic_gradient(mlp: MLP, loss: Loss, theta: Array, x: Array, y: Array) -> Array:
    """dL/dθ by the network's own backward pass."""
    gradient = np.zeros_like(theta)
    p = mlp.layout.windows(theta)
    output, tape = mlp.forward(p, x, mlp.initial_running(theta.dtype))
    _, d_output = loss.value_and_gradient(output, y)
    mlp.backward(p, tape, d_output, mlp.layout.windows(gradient))
    return gradient


def numeric_gradient(mlp: MLP, loss: Loss, theta: Array, x: Array, y: Array) -> Array:
    """dL/dθ by central differences, every parameter: (8 L(θ+h) − 8 L(θ−h) − L(θ+2h) + L(θ−2h))/12h."""
    moved = theta.copy()
    p, running = mlp.layout.windows(moved), mlp.initial_running(theta.dtype)

    def at(index: int, value: float) -> float:
        moved[index] = value
        return loss.value(mlp.forward(p, x, running)[0], y)

    gradient = np.empty_like(theta)
    for index, value in enumerate(theta):
        near = at(index, value + STEP) - at(index, value - STEP)
        far = at(index, value + 2 * STEP) - at(index, value - 2 * STEP)
        gradient[index] = (8 * near - far) / (12 * STEP)
        moved[index] = value
    return gradient


def worst_error(mlp: MLP, a: Array, b: Array, floor: float = FLOOR) -> float:
    """The largest norm-wise relative difference over all tensors, with an absolute floor."""
    whole = max(float(np.linalg.norm(a)), float(np.linalg.norm(b)))
    errors = [0.0]
    for slot in mlp.layout.slots:
        left, right = slot.view(a), slot.view(b)
        size = max(float(np.linalg.norm(left)), float(np.linalg.norm(right)), floor * whole, 1e-300)
        errors.append(float(np.linalg.norm(left - right)) / size)
    return max(errors) if np.isfinite(errors).all() else float("inf")


def gradient_error(mlp: MLP, loss: Loss, theta: Array, x: Array, y: Array) -> float:
    """How far analytic and numeric gradients are apart."""
    return worst_error(mlp, analytic_gradient(mlp, loss, theta, x, y), numeric_gradient(mlp, loss, theta, x, y))


def away_from_kinks(mlp: MLP, theta: Array, x: Array, margin: float = 3e-3) -> bool:
    """Whether every nonlinearity is entered at least this far from 0, where ReLU has its kink.

    Exact zeros do not count: they come from units that are switched off, and stay 0 under a small step.
    """
    _, tape = mlp.forward(mlp.layout.windows(theta), x, mlp.initial_running(theta.dtype))
    return all(bool((((size := np.abs(record.pre)) == 0) | (size > margin)).all()) for record in tape.records)
