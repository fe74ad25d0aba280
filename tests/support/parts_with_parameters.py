"""Parts of a user's own whose parameters no formula shows, each acting in another place."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradlab.network import Activation, Init, Loss, Norm, Skip
from gradlab.optim import Optimizer, Schedule
from gradlab.parts import Tensor


class Bent(Activation):
    """f(x) = x + bend·x²."""

    name = "bent"
    bend: float = 0.1

    def forward(self, x: Any) -> Any:
        return x + x.dtype.type(self.bend) * x * x

    def slope(self, x: Any, y: Any) -> Any:
        return 1 + x.dtype.type(2 * self.bend) * x


class QuietNorm(Norm):
    """Acts in evaluation (`held_out`), in the backward pass (`back`) or in the running mean (`keep`) only."""

    name = "quiet"
    has_memory = True
    held_out: float = 1.0
    back: float = 1.0
    keep: float = 0.5

    def forward(self, x: Any, p: Any, running: Any, training: bool) -> Any:
        if not training:
            return x * x.dtype.type(self.held_out), None, running
        mean, variance = running
        return x, None, (mean + x.dtype.type(self.keep) * (x.mean(0) - mean), variance)

    def backward(self, dy: Any, p: Any, cache: Any) -> Any:
        return dy * dy.dtype.type(self.back), {}


class QuietSkip(Skip):
    """y = weight·x + F(x); `back` acts in the backward pass only, `beyond` only on inputs above 10⁶."""

    name = "quiet"
    formula = "x + f(Wx + b)"
    weight: float = 1.0
    back: float = 1.0
    beyond: float = 1.0

    def forward(self, x: Any, branch: Any, p: Any) -> Any:
        kept = np.where(np.abs(x) > 1e6, x * x.dtype.type(self.beyond), x)
        return x.dtype.type(self.weight) * kept + branch, None

    def backward(self, dy: Any, p: Any, cache: Any) -> Any:
        return dy * dy.dtype.type(self.weight * self.back), dy, {}


class Closed(Skip):
    """y = x + α·gate·F(x), α learned from 0: the gate shows in no output before training."""

    name = "closed"
    formula = "x + α f(Wx + b), α learned from 0"
    gate: float = 1.0

    def tensors(self, width: int, depth: int) -> Any:
        return {"alpha": Tensor((), 0.0, "skip scales")}

    def forward(self, x: Any, branch: Any, p: Any) -> Any:
        return x + p["alpha"] * x.dtype.type(self.gate) * branch, branch

    def backward(self, dy: Any, p: Any, branch: Any) -> Any:
        gate = dy.dtype.type(self.gate)
        return dy, p["alpha"] * gate * dy, {"alpha": gate * np.vdot(dy, branch)}


class Late(Optimizer):
    """SGD whose `second` acts from its second update on."""

    name = "late"
    second: float = 1.0

    def init(self, theta: Any) -> Any:
        return {"t": 0}

    def update(self, gradient: Any, state: Any, theta: Any, lr: float) -> Any:
        size = lr * (self.second if state["t"] else 1.0)
        return -theta.dtype.type(size) * gradient, {"t": state["t"] + 1}


class Half(Loss):
    """share·mean (y − t)²."""

    name = "half"
    targets = "values"
    share: float = 0.5

    def value(self, output: Any, target: Any) -> float:
        return float(self.share * np.mean((output - target) ** 2))

    def value_and_gradient(self, output: Any, target: Any) -> Any:
        factor = output.dtype.type(2 * self.share / output.size)
        return self.value(output, target), factor * (output - target)


class Constant(Init):
    """All weights are c·(u − ½)."""

    name = "constant"
    c: float = 1.0

    def quantile(self, u: Any, fan_in: int, fan_out: int) -> Any:
        return self.c * (u - 0.5)


class Dip(Schedule):
    """1, but `depth` at step 7."""

    name = "dip"
    depth: float = 0.5

    def factor(self, step: int, horizon: Any) -> float:
        return self.depth if step == 7 else 1.0
