"""What a norm is: it stands before the activation of a layer and may learn tensors of its own, say a gain per unit."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from gradlab.network.layout import Tensor
from gradlab.parts import Part

Array = NDArray[Any]
Running = tuple[Array, Array] | None
"""Running mean and variance, (h,) each; None for norms without a memory."""
Gradients = Mapping[str, Any]
"""Name of a declared tensor -> its gradient: an array of its shape, or a number where the shape is `()`."""


class Norm(Part):
    """y = norm(x), and its gradient.

    Shapes: n samples, h units of the layer. All arrays are float32 or float64, the same for all of them, and results
    have to keep that dtype. Both methods must be deterministic and must not write to any array they are given; they may
    return such an array itself.
    """

    part: ClassVar[str] = "norm"
    has_memory: ClassVar[bool] = False
    """Whether it keeps running statistics for evaluation; they start at mean 0 and variance 1."""

    def tensors(self, width: int, depth: int) -> Mapping[str, Tensor]:
        """What the norm of every hidden layer learns: name -> `Tensor`. Nothing, unless overridden.

        width: units of the layer. depth: hidden layers of the network.
        Returns the same names and shapes whenever it is called. Each layer has its own tensors; layer 3's are stored
        as `layer3.NAME`, beside its `weight` and `bias`.
        """
        return {}

    @abstractmethod
    def forward(self, x: Array, p: Mapping[str, Array], running: Running, training: bool) -> tuple[Array, Any, Running]:
        """(y, cache, running statistics after this batch).

        x: what the layer's matrix gives (in a pre-activation block: what enters the layer), (n, h).
        p: this layer's tensors by name (a 0-d array for the shape `()`).
        running: the statistics so far; None without a memory.
        training: if false, a sample's y must not depend on the other samples, and `running` is returned as it is.
        y: (n, h). cache: anything, handed to `backward` of the same pass. Return new running statistics, do not
        change the old ones: a measurement throws them away.
        """

    @abstractmethod
    def backward(self, dy: Array, p: Mapping[str, Array], cache: Any) -> tuple[Array, Gradients]:
        """(dL/dx, gradients of the tensors) of a forward pass in training mode.

        dy: dL/dy, (n, h). p, cache: as in `forward`. dL/dx: (n, h).
        The gradients name every declared tensor, summed over the samples.
        """


def gain_of(width: int) -> Tensor:
    """One factor per unit, 1 at the start."""
    return Tensor((width,), 1.0, "norm gains")


def shift_of(width: int) -> Tensor:
    """One summand per unit, 0 at the start."""
    return Tensor((width,), 0.0, "norm shifts")


class NoNorm(Norm):
    """y = x."""

    name = "none"

    def forward(self, x: Array, p: Mapping[str, Array], running: Running, training: bool) -> tuple[Array, Any, Running]:
        """x itself."""
        return x, None, running

    def backward(self, dy: Array, p: Mapping[str, Array], cache: Any) -> tuple[Array, Gradients]:
        """dy itself."""
        return dy, {}


class LayerNorm(Norm):
    """x̂ = (x − mean_h x)/√(var_h x + ε), y = g ⊙ x̂ + s."""

    name = "layer"
    epsilon: Annotated[float, Field(gt=0)] = 1e-5

    def tensors(self, width: int, depth: int) -> Mapping[str, Tensor]:
        """g and s."""
        return {"gain": gain_of(width), "shift": shift_of(width)}

    def forward(self, x: Array, p: Mapping[str, Array], running: Running, training: bool) -> tuple[Array, Any, Running]:
        """The same in training and evaluation."""
        centered = x - x.mean(1, keepdims=True)
        inverse_std = 1 / np.sqrt(np.mean(centered * centered, 1, keepdims=True) + self.epsilon)
        x_hat = centered * inverse_std
        return p["gain"] * x_hat + p["shift"], (x_hat, inverse_std), running

    def backward(self, dy: Array, p: Mapping[str, Array], cache: Any) -> tuple[Array, Gradients]:
        """dx = (u − mean u − x̂ mean(u x̂))/σ with u = g ⊙ dy, means over the units."""
        x_hat, inverse_std = cache
        u = p["gain"] * dy
        dx = inverse_std * (u - u.mean(1, keepdims=True) - x_hat * np.mean(u * x_hat, 1, keepdims=True))
        return dx, {"gain": np.sum(dy * x_hat, 0), "shift": dy.sum(0)}


class RmsNorm(Norm):
    """x̂ = x/√(mean_h x² + ε), y = g ⊙ x̂."""

    name = "rms"
    called = "RMS norm"
    epsilon: Annotated[float, Field(gt=0)] = 1e-5

    def tensors(self, width: int, depth: int) -> Mapping[str, Tensor]:
        """g."""
        return {"gain": gain_of(width)}

    def forward(self, x: Array, p: Mapping[str, Array], running: Running, training: bool) -> tuple[Array, Any, Running]:
        """The same in training and evaluation."""
        inverse_rms = 1 / np.sqrt(np.mean(x * x, 1, keepdims=True) + self.epsilon)
        x_hat = x * inverse_rms
        return p["gain"] * x_hat, (x_hat, inverse_rms), running

    def backward(self, dy: Array, p: Mapping[str, Array], cache: Any) -> tuple[Array, Gradients]:
        """dx = (u − x̂ mean(u x̂))/rms with u = g ⊙ dy, the mean over the units."""
        x_hat, inverse_rms = cache
        u = p["gain"] * dy
        dx = inverse_rms * (u - x_hat * np.mean(u * x_hat, 1, keepdims=True))
        return dx, {"gain": np.sum(dy * x_hat, 0)}


class BatchNorm(Norm):
    """x̂ = (x − mean_n x)/√(var_n x + ε), y = g ⊙ x̂ + s; evaluation uses the running mean and variance."""

    name = "batch"
    has_memory = True
    epsilon: Annotated[float, Field(gt=0)] = 1e-5
    momentum: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Weight of the newest batch in the running statistics (torch's definition)."""

    def tensors(self, width: int, depth: int) -> Mapping[str, Tensor]:
        """g and s."""
        return {"gain": gain_of(width), "shift": shift_of(width)}

    def forward(self, x: Array, p: Mapping[str, Array], running: Running, training: bool) -> tuple[Array, Any, Running]:
        """Training uses the batch's own statistics; the running variance keeps the unbiased one, as in torch."""
        if not training:
            assert running is not None
            mean, variance = running
            return p["gain"] * (x - mean) / np.sqrt(variance + self.epsilon) + p["shift"], None, running
        mean = x.mean(0)
        centered = x - mean
        variance = np.mean(centered * centered, 0)
        inverse_std = 1 / np.sqrt(variance + self.epsilon)
        x_hat = centered * inverse_std
        return p["gain"] * x_hat + p["shift"], (x_hat, inverse_std), self._remembered(running, mean, variance, len(x))

    def _remembered(self, running: Running, mean: Array, variance: Array, n: int) -> Running:
        assert running is not None
        old_mean, old_variance = running
        new_mean = old_mean + self.momentum * (mean - old_mean)
        if n == 1:  # one sample has no variance to remember
            return new_mean, old_variance
        return new_mean, old_variance + self.momentum * (variance * (n / (n - 1)) - old_variance)

    def backward(self, dy: Array, p: Mapping[str, Array], cache: Any) -> tuple[Array, Gradients]:
        """dx = (u − mean u − x̂ mean(u x̂))/σ with u = g ⊙ dy, means over the batch."""
        x_hat, inverse_std = cache
        u = p["gain"] * dy
        dx = inverse_std * (u - u.mean(0) - x_hat * np.mean(u * x_hat, 0))
        return dx, {"gain": np.sum(dy * x_hat, 0), "shift": dy.sum(0)}


class DynamicTanh(Norm):
    """y = g ⊙ tanh(α x) + s, one learned α per layer (DyT; Zhu, Chen, He, LeCun, Liu 2025)."""

    name = "dynamic_tanh"
    called = "dynamic tanh"
    start: float = 0.5
    """Where α starts."""

    def tensors(self, width: int, depth: int) -> Mapping[str, Tensor]:
        """α, g and s."""
        alpha = Tensor((), self.start, "norm scales")
        return {"alpha": alpha, "gain": gain_of(width), "shift": shift_of(width)}

    def forward(self, x: Array, p: Mapping[str, Array], running: Running, training: bool) -> tuple[Array, Any, Running]:
        """The same in training and evaluation."""
        t = np.tanh(p["alpha"] * x)
        return p["gain"] * t + p["shift"], (x, t), running

    def backward(self, dy: Array, p: Mapping[str, Array], cache: Any) -> tuple[Array, Gradients]:
        """dx = α u with u = g ⊙ dy ⊙ (1 − tanh²), dα = ⟨u, x⟩, dg = Σ dy ⊙ tanh, ds = Σ dy."""
        x, t = cache
        u = p["gain"] * dy * (1 - t * t)
        return p["alpha"] * u, {"alpha": np.vdot(u, x), "gain": np.sum(dy * t, 0), "shift": np.sum(dy, 0)}
