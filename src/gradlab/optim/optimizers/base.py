"""The base class of optimizers: a pair of pure functions on flat vectors.

    state = init(θ)
    Δ, state = update(g, state, θ, η)          θ ← θ + Δ

`weight_decay` λ applies to every parameter, as in PyTorch: it is added to the gradient (g + λθ), except in AdamW,
which decays the parameters directly.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any, ClassVar

from numpy.typing import NDArray
from pydantic import Field

from gradlab.parts import Part

Array = NDArray[Any]
State = dict[str, Any]
"""Vectors of θ's length, and step counters."""

Decay = Annotated[float, Field(ge=0)]
Rate = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[float, Field(gt=0)]


class Optimizer(Part):
    """Pure `init` and `update`: neither changes what it is given, and both are deterministic.

    All parameters of the network are one flat vector θ (float32 or float64), whatever the architecture.
    """

    part: ClassVar[str] = "optimizer"

    @abstractmethod
    def init(self, theta: Array) -> State:
        """The state before the first step: vectors like θ and counters, by any names. Empty if it needs none."""

    @abstractmethod
    def update(self, gradient: Array, state: State, theta: Array, lr: float) -> tuple[Array, State]:
        """(Δ, state after this step). The engine then sets θ ← θ + Δ.

        gradient: dL/dθ after clipping, like θ. state: what `init` or the previous step returned; return a new one.
        lr: the learning rate of this step, schedule and warm-up applied. Δ: like θ, in its dtype.
        """


def add_weight_decay(gradient: Array, theta: Array, weight_decay: float) -> Array:
    """Return g + λθ."""
    return gradient + weight_decay * theta if weight_decay else gradient
