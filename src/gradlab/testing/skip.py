"""The contract of a skip."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gradlab.network.skips.base import Skip
from gradlab.network.tensors import checked
from gradlab.testing.base import Check, check, random, require, unchanged
from gradlab.testing.small import declared_values, require_declared, require_right_gradient, small_model
from gradlab.testing.trained import engines_agree

DEPTH = 4


def checks(part: Skip) -> Iterator[Check]:
    """Declaration, purity, shape and dtype, gradient with one and two layers per block, with and without norm."""

    def given(dtype: Any = np.float64) -> tuple[list[Any], dict[str, Any]]:
        """x, branch and dy; and what the skip sees of its block."""
        arrays = [random((3, 4), seed).astype(dtype) for seed in range(3)]
        tensors = declared_values(checked(part, part.tensors(4, DEPTH)), dtype)
        return arrays, {**part.constants(4, DEPTH), **tensors}

    def declares() -> None:
        require(
            part.tensors(4, DEPTH).keys() == part.tensors(4, DEPTH).keys(), "declares other tensors when asked again"
        )
        shared = part.tensors(4, DEPTH).keys() & part.constants(4, DEPTH).keys()
        require(not shared, f"{', '.join(sorted(shared))}: learned and constant at the same time")
        (x, branch, dy), p = given()
        _, cache = part.forward(x, branch, p)
        require_declared(part.tensors(4, DEPTH), part.backward(dy, p, cache)[2])

    def pure() -> None:
        (x, branch, dy), p = given()
        held = [x, branch, dy, *(value for value in p.values() if isinstance(value, np.ndarray))]

        def both() -> None:
            _, cache = part.forward(x, branch, p)
            part.backward(dy, p, cache)

        unchanged(held, both)

    def keeps_shape() -> None:
        for dtype in (np.float32, np.float64):
            (x, branch, dy), p = given(dtype)
            y, cache = part.forward(x, branch, p)
            require(y.shape == (3, 4) and y.dtype == dtype, f"forward gives {y.dtype} {y.shape} for {x.dtype} (3, 4)")
            along, to_branch, _ = part.backward(dy, p, cache)
            for what, found in (("dx", along), ("dF", to_branch)):
                if found is not None:
                    fits = found.shape == (3, 4) and found.dtype == dtype
                    require(fits, f"backward gives {what} {found.dtype} {found.shape} for {x.dtype} (3, 4)")

    yield check("states its formula", lambda: require(bool(part.formula), "formula is empty"))
    yield check("declares its tensors and gives a gradient of each", declares)
    yield check("does not change what it is given", pure)
    yield check("keeps shape and dtype (float32, float64)", keeps_shape)
    for layers in (1, 2):
        for norm in ("none", "layer"):
            what = f"gradient is right, {layers} per block, norm {norm}"

            def right(layers: int = layers, norm: str = norm) -> None:
                require_right_gradient(small_model(part, layers_per_block=layers, norm=norm))

            yield check(what, right)
    yield engines_agree(part)
