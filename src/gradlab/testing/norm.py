"""What every norm has to keep."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradlab.network.norms.base import Norm, Running
from gradlab.testing.base import Check, check, random, require, unchanged
from gradlab.testing.small import require_right_gradient, small_model, small_state
from gradlab.testing.trained import engines_agree


def checks(part: Norm) -> Iterator[Check]:
    """Purity, gradient, evaluation mode."""
    gain, shift = np.ones(4), np.zeros(4)
    running: Running = (np.zeros(4), np.ones(4)) if part.has_memory else None

    def pure() -> None:
        x = random((6, 4))
        arrays = [x, gain, shift, *(running or ())]
        unchanged(arrays, lambda: part.forward(x, gain, shift, running, True))

    def evaluates() -> None:
        mlp = small_model(part)
        theta, x, _ = small_state(mlp)
        p = mlp.layout.windows(theta)
        one = mlp.forward(p, x[:1], mlp.initial_running(float), training=False)[0]
        many = mlp.forward(p, x, mlp.initial_running(float), training=False)[0]
        require(np.allclose(one, many[:1], rtol=1e-12), "in evaluation a sample's output depends on its batch")

    yield check("does not change what it is given", pure)
    yield check("evaluation of a sample does not depend on its batch", evaluates)
    for skip in ("none", "identity", "add_then_activate", "pre_activation"):
        model = small_model(part, skip=skip)
        yield check(f"gradient is right, skip {skip}", lambda model=model: require_right_gradient(model))  # type: ignore[misc]
    yield engines_agree(part)
