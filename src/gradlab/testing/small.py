"""Small networks and trials for the checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.network.losses.mse import Mse
from gradlab.network.mlp import MLP
from gradlab.network.tensors import Tensor
from gradlab.parts import Catalog, Part
from gradlab.spec.config import Model
from gradlab.testing.base import require
from gradlab.testing.gradients import TOLERANCE, away_from_kinks, gradient_error

WIDTH, SAMPLES = 4, 6


def catalog_with(part: Part) -> Catalog:
    """The built-in parts and this one."""
    return Catalog((), {(part.part, part.name): type(part)})


def small_model(part: Part, **fields: Any) -> MLP:
    """A network of 4 hidden layers and a head in which the part is used with its parameters."""
    catalog = catalog_with(part)
    choice = {"kind": part.name, **part.parameters()}
    tree = {"depth": 4, "width": WIDTH, "stem": "none", "activation": "tanh", part.part: choice, **fields}
    return MLP.of(Model.model_validate(tree, context={"catalog": catalog}), WIDTH, 3, catalog)


def small_state(mlp: MLP) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Parameters, inputs and targets away from kinks."""
    for seed in range(200):
        rng = np.random.default_rng(seed)
        theta = 0.6 * rng.standard_normal(mlp.layout.size)
        x, y = rng.standard_normal((SAMPLES, WIDTH)), rng.standard_normal((SAMPLES, 3))
        if away_from_kinks(mlp, theta, x):
            return theta, x, y
    raise AssertionError("found no parameters away from kinks: does the part give exact zeros everywhere?")


def declared_values(tensors: Mapping[str, Tensor], dtype: Any) -> dict[str, Any]:
    """Some value for every declared tensor, none of them 0."""
    return {
        name: np.asarray(1 + 0.3 * np.random.default_rng(number).random(tensor.shape)).astype(dtype)
        for number, (name, tensor) in enumerate(tensors.items())
    }


def require_declared(tensors: Mapping[str, Tensor], gradients: Mapping[str, Any]) -> None:
    """A gradient of every declared tensor, in its shape, and of nothing else."""
    names = f"{sorted(gradients)}, declared are {sorted(tensors)}"
    require(gradients.keys() == tensors.keys(), f"backward gives gradients of {names}")
    for name, tensor in tensors.items():
        shape = np.shape(gradients[name])
        require(shape == tensor.shape, f"backward gives a gradient of shape {shape} for {name} of shape {tensor.shape}")


def require_right_gradient(mlp: MLP) -> None:
    """Analytic against central differences, every parameter."""
    error = gradient_error(mlp, Mse(), *small_state(mlp))
    require(
        error <= TOLERANCE,
        f"the gradient differs from central differences by {error:.1e} (relative; at most {TOLERANCE:.0e})",
    )
