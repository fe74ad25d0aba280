"""The contract of a norm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gradlab.network.norms.base import Norm, Running
from gradlab.network.tensors import checked
from gradlab.testing.base import Check, check, random, require, unchanged
from gradlab.testing.small import declared_values, require_declared, require_right_gradient, small_model, small_state
from gradlab.testing.trained import engines_agree

DEPTH = 4


def checks(part: Norm) -> Iterator[Check]:
    """Declaration, purity, shape and dtype, evaluation mode, gradient."""

    def given(dtype: Any = np.float64) -> tuple[Any, Any, dict[str, Any], Running]:
        """x, dy, the layer's tensors and running statistics."""
        p = declared_values(checked(part, part.tensors(4, DEPTH)), dtype)
        running = (np.zeros(4, dtype), np.ones(4, dtype)) if part.has_memory else None
        return random((6, 4)).astype(dtype), random((6, 4), 1).astype(dtype), p, running

    def declares() -> None:
        x, dy, p, running = given()
        require(
            part.tensors(4, DEPTH).keys() == part.tensors(4, DEPTH).keys(), "declares other tensors when asked again"
        )
        _, cache, _ = part.forward(x, p, running, True)
        require_declared(part.tensors(4, DEPTH), part.backward(dy, p, cache)[1])

    def pure() -> None:
        x, dy, p, running = given()

        def both() -> None:
            _, cache, _ = part.forward(x, p, running, True)
            part.backward(dy, p, cache)

        unchanged([x, dy, *p.values(), *(running or ())], both)

    def keeps_shape() -> None:
        for dtype in (np.float32, np.float64):
            x, dy, p, running = given(dtype)
            y, cache, after = part.forward(x, p, running, True)
            dx, _ = part.backward(dy, p, cache)
            for what, found in (("forward", y), ("backward", dx)):
                fits = found.shape == (6, 4) and found.dtype == dtype
                require(fits, f"{what} gives {found.dtype} {found.shape} for {x.dtype} (6, 4)")
            require((after is not None) == part.has_memory, "running statistics do not agree with `has_memory`")

    def evaluates() -> None:
        mlp = small_model(part)
        theta, x, _ = small_state(mlp)
        p = mlp.layout.windows(theta)
        one = mlp.forward(p, x[:1], mlp.initial_running(float), training=False)[0]
        many = mlp.forward(p, x, mlp.initial_running(float), training=False)[0]
        require(np.allclose(one, many[:1], rtol=1e-12), "in evaluation a sample's output depends on its batch")

    yield check("declares its tensors and gives a gradient of each", declares)
    yield check("does not change what it is given", pure)
    yield check("keeps shape and dtype (float32, float64)", keeps_shape)
    yield check("evaluation of a sample does not depend on its batch", evaluates)
    for skip in ("none", "identity", "add_then_activate", "pre_activation"):

        def right(skip: str = skip) -> None:
            require_right_gradient(small_model(part, skip=skip))

        yield check(f"gradient is right, skip {skip}", right)
    yield engines_agree(part)
