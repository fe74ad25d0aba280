"""What an activation is: an elementwise function and its derivative."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from math import pi, sqrt
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from gradlab.parts import Part

Array = NDArray[Any]


class Activation(Part):
    """y = f(x), elementwise. Backward: dx = dy · f'(x).

    Both methods must be deterministic and must not write to the arrays they are given. NaN has to give NaN: a part that
    hid it would hide divergence.
    """

    part: ClassVar[str] = "activation"
    torch_name: ClassVar[str] = ""
    """Its function in `torch.nn.functional`, which takes the part's parameters by name; empty if there is none."""
    torch_options: ClassVar[Mapping[str, str]] = {}
    """What that function is given besides."""

    @abstractmethod
    def forward(self, x: Array) -> Array:
        """f(x).

        x: (n, h), float32 or float64. Returns a new array (or x itself) of the same shape and dtype.
        """

    @abstractmethod
    def slope(self, x: Array, y: Array) -> Array:
        """f'(x).

        x: what `forward` was given. y: what it returned, to save computing it again.
        Returns an array of the same shape and dtype. At a kink, one of the two slopes.
        """


class Identity(Activation):
    """f(x) = x."""

    name = "identity"
    called = "no activation"

    def forward(self, x: Array) -> Array:
        """x itself."""
        return x

    def slope(self, x: Array, y: Array) -> Array:
        """1."""
        return np.ones_like(x)


class Relu(Activation):
    """f(x) = max(x, 0)."""

    name = "relu"
    torch_name = "relu"
    called = "ReLU"

    def forward(self, x: Array) -> Array:
        """max(x, 0); `maximum` keeps NaN, which `where(x > 0, x, 0)` would hide."""
        return np.maximum(x, 0)

    def slope(self, x: Array, y: Array) -> Array:
        """1 where x > 0, else 0 (0 at the kink, as in torch)."""
        return (x > 0).astype(x.dtype)


class LeakyRelu(Activation):
    """f(x) = x for x > 0, else negative_slope · x."""

    name = "leaky_relu"
    torch_name = "leaky_relu"
    called = "leaky ReLU"
    negative_slope: float = 0.01

    def forward(self, x: Array) -> Array:
        """Both branches are linear in x, so NaN stays NaN."""
        return x * self.slope(x, x)

    def slope(self, x: Array, y: Array) -> Array:
        """1 or negative_slope (the latter at the kink, as in torch)."""
        return np.where(x > 0, x.dtype.type(1), x.dtype.type(self.negative_slope))


class Tanh(Activation):
    """f(x) = tanh x."""

    name = "tanh"
    torch_name = "tanh"

    def forward(self, x: Array) -> Array:
        """Tanh x."""
        return np.tanh(x)

    def slope(self, x: Array, y: Array) -> Array:
        """1 − y²."""
        return 1 - y * y


class HardTanh(Activation):
    """f(x) = x between −1 and 1, and the nearer of both outside."""

    name = "hard_tanh"
    torch_name = "hardtanh"
    called = "hard tanh"

    def forward(self, x: Array) -> Array:
        """Clipped."""
        return np.clip(x, -1, 1)

    def slope(self, x: Array, y: Array) -> Array:
        """1 inside, else 0 (0 at the kinks, as in torch)."""
        return (np.abs(x) < 1).astype(x.dtype)


class Softsign(Activation):
    """f(x) = x/(1 + |x|)."""

    name = "softsign"
    torch_name = "softsign"

    def forward(self, x: Array) -> Array:
        """x/(1 + |x|)."""
        return x / (1 + np.abs(x))

    def slope(self, x: Array, y: Array) -> Array:
        """1/(1 + |x|)²."""
        share = 1 / (1 + np.abs(x))
        return share * share


class Elu(Activation):
    """f(x) = x for x > 0, else α (eˣ − 1)."""

    name = "elu"
    torch_name = "elu"
    called = "ELU"
    alpha: Annotated[float, Field(gt=0)] = 1.0

    def forward(self, x: Array) -> Array:
        """Of negative numbers the exponential, so that nothing overflows."""
        return np.where(x > 0, x, x.dtype.type(self.alpha) * np.expm1(np.minimum(x, 0)))

    def slope(self, x: Array, y: Array) -> Array:
        """1 or y + α (the latter at 0, as in torch)."""
        return np.where(x > 0, x.dtype.type(1), y + x.dtype.type(self.alpha))


SELU_SCALE, SELU_ALPHA = 1.0507009873554805, 1.6732632423543772
"""λ and α of SELU (Klambauer, Unterthiner, Mayr, Hochreiter 2017)."""


class Selu(Activation):
    """f(x) = λ x for x > 0, else λ α (eˣ − 1), with which mean 0 and variance 1 are a fixed point."""

    name = "selu"
    torch_name = "selu"
    called = "SELU"

    def forward(self, x: Array) -> Array:
        """λ ELU(x)."""
        scale, limit = x.dtype.type(SELU_SCALE), x.dtype.type(SELU_SCALE * SELU_ALPHA)
        return np.where(x > 0, scale * x, limit * np.expm1(np.minimum(x, 0)))

    def slope(self, x: Array, y: Array) -> Array:
        """λ or y + λα (the latter at 0, as in torch)."""
        return np.where(x > 0, x.dtype.type(SELU_SCALE), y + x.dtype.type(SELU_SCALE * SELU_ALPHA))


class Softplus(Activation):
    """f(x) = ln(1 + eˣ)."""

    name = "softplus"
    torch_name = "softplus"  # which answers x from 20 on: 2e-9 less, 1e-10 of it

    def forward(self, x: Array) -> Array:
        """ln(1 + eˣ), without overflow."""
        return _softplus(x)

    def slope(self, x: Array, y: Array) -> Array:
        """σ(x)."""
        return _sigmoid(x)


def _softplus(x: Array) -> Array:
    softplus: Array = np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))
    return softplus


class Mish(Activation):
    """f(x) = x tanh ln(1 + eˣ)."""

    name = "mish"
    torch_name = "mish"
    called = "Mish"

    def forward(self, x: Array) -> Array:
        """x tanh softplus x."""
        return x * np.tanh(_softplus(x))

    def slope(self, x: Array, y: Array) -> Array:
        """t + x (1 − t²) σ(x) with t = tanh softplus x."""
        t = np.tanh(_softplus(x))
        return t + x * (1 - t * t) * _sigmoid(x)


class Square(Activation):
    """f(x) = x²."""

    name = "square"

    def forward(self, x: Array) -> Array:
        """x²."""
        return x * x

    def slope(self, x: Array, y: Array) -> Array:
        """2 x."""
        return 2 * x


class Sigmoid(Activation):
    """f(x) = σ(x) = 1/(1 + e⁻ˣ)."""

    name = "sigmoid"
    torch_name = "sigmoid"

    def forward(self, x: Array) -> Array:
        """σ(x), without overflow for large |x|."""
        from scipy.special import expit

        y: Array = expit(x)
        return y

    def slope(self, x: Array, y: Array) -> Array:
        """y (1 − y)."""
        return y * (1 - y)


class Silu(Activation):
    """f(x) = x σ(x)."""

    name = "silu"
    torch_name = "silu"
    called = "SiLU"

    def forward(self, x: Array) -> Array:
        """x σ(x)."""
        return x * _sigmoid(x)

    def slope(self, x: Array, y: Array) -> Array:
        """σ(x) + x σ(x)(1 − σ(x)) = s + y (1 − s)."""
        s = _sigmoid(x)
        return s + y * (1 - s)


def _sigmoid(x: Array) -> Array:
    from scipy.special import expit

    s: Array = expit(x)
    return s


class Gelu(Activation):
    """f(x) = x Φ(x), Φ the normal distribution function."""

    name = "gelu"
    torch_name = "gelu"
    called = "GELU"

    def forward(self, x: Array) -> Array:
        """x Φ(x)."""
        return x * _normal_cdf(x)

    def slope(self, x: Array, y: Array) -> Array:
        """Φ(x) + x φ(x), φ the normal density."""
        return _normal_cdf(x) + x * np.exp(-0.5 * x * x) / x.dtype.type(sqrt(2 * pi))


def _normal_cdf(x: Array) -> Array:
    from scipy.special import ndtr

    phi: Array = ndtr(x)
    return phi


# Gaussian error linear unit, its tanh approximation (PyTorch's `approximate="tanh"`, GPT-2's GELU).

ROOT, CUBE = sqrt(2 / pi), 0.044715


class GeluTanh(Activation):
    """f(x) = x (1 + tanh u)/2, u = √(2/π) (x + 0.044715 x³)."""

    name = "gelu_tanh"
    torch_name = "gelu"
    torch_options = {"approximate": "tanh"}  # noqa: RUF012

    def forward(self, x: Array) -> Array:
        """x (1 + tanh u)/2."""
        return 0.5 * x * (1 + _tanh(x))

    def slope(self, x: Array, y: Array) -> Array:
        """(1 + t)/2 + x (1 − t²) u'/2 with t = tanh u, u' = √(2/π) (1 + 3 · 0.044715 x²)."""
        t = _tanh(x)
        return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * (ROOT * (1 + 3 * CUBE * x * x))


def _tanh(x: Array) -> Array:
    return np.tanh(ROOT * (x + CUBE * x * x * x))


TORCH_NAMES = frozenset(kind.torch_name for kind in Activation.__subclasses__() if kind.torch_name)
"""The functions of torch that are activations of the lab."""


def find_torch_activation(name: str, options: Mapping[str, Any], given: Sequence[Any] = ()) -> Activation | None:
    """Return what a function of torch is in the lab, by its name and options; None if the lab does not have it.

    `options` may hold more than the function needs; `given` are parameters without a name.
    """
    kinds = [kind for kind in Activation.__subclasses__() if name and kind.torch_name == name]
    matching = [kind for kind in kinds if kind.torch_options.items() <= options.items()]
    if not matching:
        return None
    kind = max(matching, key=lambda kind: len(kind.torch_options))
    names = kind.parameter_names()
    return kind(**dict(zip(names, given, strict=False)), **{key: options[key] for key in names if key in options})
