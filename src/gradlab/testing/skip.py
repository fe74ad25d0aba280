"""What every skip has to keep."""

from __future__ import annotations

from collections.abc import Iterator

from gradlab.network.skips.base import Skip
from gradlab.testing.base import Check, check, random, require, unchanged
from gradlab.testing.small import require_right_gradient, small_model
from gradlab.testing.trained import engines_agree


def checks(part: Skip) -> Iterator[Check]:
    """Purity, shape, gradient with one and two layers per block, with and without norm."""

    def pure() -> None:
        x, branch, dy = random((3, 4)), random((3, 4), 1), random((3, 4), 2)
        unchanged([x, branch], lambda: part.combine(x, branch, 0.5))
        unchanged([branch, dy], lambda: part.backward(dy, branch, 0.5))

    def keeps_shape() -> None:
        y = part.combine(random((3, 4)), random((3, 4), 1), 0.5)
        require(y.shape == (3, 4), f"combine gives shape {y.shape} for (3, 4)")

    yield check("states its formula", lambda: require(bool(part.formula), "formula is empty"))
    yield check("does not change what it is given", pure)
    yield check("keeps the shape", keeps_shape)
    for layers in (1, 2):
        for norm in ("none", "layer"):
            model = small_model(part, layers_per_block=layers, norm=norm)
            what = f"gradient is right, {layers} per block, norm {norm}"
            yield check(what, lambda model=model: require_right_gradient(model))  # type: ignore[misc]
    yield engines_agree(part)
