"""What a skip is: how the input of a block joins the output of its branch.

The branch F of a block is one or more layers. Where the sum stands is the skip's `place`:

    after       y = skip(x, F(x)),       layers  f(norm(x W + b))         plain, identity, scaled, ReZero, Highway
    inside      y = f(skip(x, F(x))),    the last layer's f comes after   add-then-activate
    before      y = skip(x, F(x)),       layers  f(norm(x)) W + b         pre-activation
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from gradlab.network.inits import LecunNormal
from gradlab.network.layout import Tensor
from gradlab.parts import Part
from gradlab.spec.base import Scale, scale_value

Array = NDArray[Any]
Gradients = Mapping[str, Any]
"""Name of a declared tensor -> its gradient: an array of its shape, or a number where the shape is `()`."""


class Skip(Part):
    """y = skip(x, F), and its gradient.

    Shapes: n samples, h units (the network's width). All arrays are float32 or float64, the same for all of them, and
    results have to keep that dtype. Both methods must be deterministic and must not write to any array they are given;
    they may return such an array itself.
    """

    part: ClassVar[str] = "skip"
    place: ClassVar[Literal["after", "inside", "before"]] = "after"
    """Where the sum stands, see above."""
    formula: ClassVar[str]
    """The block in one line for reports, with x, W, b and f: `x + f(Wx + b)`."""

    def tensors(self, width: int, depth: int) -> Mapping[str, Tensor]:
        """What every block learns besides its layers: name -> `Tensor`. Nothing, unless overridden.

        width: units of the block's input, branch and output.
        depth: hidden layers of the network.
        Returns the same names and shapes whenever it is called. Each block has its own tensors; block 2's are stored
        as `block2.NAME`.
        """
        return {}

    def constants(self, width: int, depth: int) -> Mapping[str, float]:
        """Numbers that depend on the network's shape and are not learned; they stand in `p` beside the tensors."""
        return {}

    def written(self, width: int, depth: int) -> str:
        """The formula in a network of this shape; override it to fill in constants."""
        return self.formula

    @abstractmethod
    def forward(self, x: Array, branch: Array, p: Mapping[str, Any]) -> tuple[Array, Any]:
        """(y, cache).

        x: the block's input, (n, h).
        branch: F(x), (n, h).
        p: this block's tensors by name (arrays; a 0-d array for the shape `()`) and the constants (floats).
        y: (n, h). cache: anything, handed to `backward` of the same pass.
        """

    @abstractmethod
    def backward(self, dy: Array, p: Mapping[str, Any], cache: Any) -> tuple[Array | None, Array, Gradients]:
        """(dL/dx along the skip, dL/dF, gradients of the tensors).

        dy: dL/dy, (n, h). p, cache: as in `forward`.
        dL/dx leaves out what flows through F: the network adds it. None where nothing flows along the skip.
        The gradients name every declared tensor, summed over the samples.
        """


class NoSkip(Skip):
    """y = F(x): no skip."""

    name = "none"
    formula = "f(Wx + b)"

    def forward(self, x: Array, branch: Array, p: Mapping[str, Any]) -> tuple[Array, Any]:
        """The branch alone."""
        return branch, None

    def backward(self, dy: Array, p: Mapping[str, Any], cache: Any) -> tuple[Array | None, Array, Gradients]:
        """Everything goes through the branch."""
        return None, dy, {}


class IdentitySkip(Skip):
    """y = x + F(x), with F ending in its activation."""

    name = "identity"
    formula = "x + f(Wx + b)"

    def forward(self, x: Array, branch: Array, p: Mapping[str, Any]) -> tuple[Array, Any]:
        """x + F."""
        return x + branch, None

    def backward(self, dy: Array, p: Mapping[str, Any], cache: Any) -> tuple[Array | None, Array, Gradients]:
        """dx = dy along the skip: the +1 of the chain rule. dF = dy."""
        return dy, dy, {}


class AddThenActivate(Skip):
    """y = f(x + F(x)), with F's last layer not yet activated."""

    name = "add_then_activate"
    called = "skip, then activation"
    place = "inside"
    formula = "f(Wx + b + x)"

    def forward(self, x: Array, branch: Array, p: Mapping[str, Any]) -> tuple[Array, Any]:
        """x + F; the network then applies f."""
        return x + branch, None

    def backward(self, dy: Array, p: Mapping[str, Any], cache: Any) -> tuple[Array | None, Array, Gradients]:
        """dy is the gradient of the sum: it goes to both."""
        return dy, dy, {}


class PreActivation(Skip):
    """y = x + F(x), with layers that activate first: F(x) = W f(x) + b."""

    name = "pre_activation"
    called = "pre-activation skip"
    place = "before"
    formula = "x + W f(x) + b"

    def forward(self, x: Array, branch: Array, p: Mapping[str, Any]) -> tuple[Array, Any]:
        """x + F."""
        return x + branch, None

    def backward(self, dy: Array, p: Mapping[str, Any], cache: Any) -> tuple[Array | None, Array, Gradients]:
        """dx = dy along the skip, dF = dy."""
        return dy, dy, {}


class ScaledSkip(Skip):
    """y = x + α F(x), α fixed."""

    name = "scaled"
    called = "scaled skip"
    formula = "x + α f(Wx + b)"
    scale: Scale = "1/sqrt(depth)"

    def constants(self, width: int, depth: int) -> Mapping[str, float]:
        """α: the number that `scale` stands for."""
        return {"alpha": scale_value(self.scale, depth)}

    def written(self, width: int, depth: int) -> str:
        """With the number."""
        return self.formula.replace("α", f"{scale_value(self.scale, depth):.4g}")

    def forward(self, x: Array, branch: Array, p: Mapping[str, Any]) -> tuple[Array, Any]:
        """x + α F."""
        return x + p["alpha"] * branch, None

    def backward(self, dy: Array, p: Mapping[str, Any], cache: Any) -> tuple[Array | None, Array, Gradients]:
        """dx = dy along the skip, dF = α dy."""
        return dy, p["alpha"] * dy, {}


class ReZero(Skip):
    """y = x + α F(x), one learned α per block."""

    name = "rezero"
    called = "ReZero skip"
    formula = "x + α f(Wx + b), α learned from 0"
    start: float = 0.0

    def tensors(self, width: int, depth: int) -> Mapping[str, Tensor]:
        """α."""
        return {"alpha": Tensor((), self.start, "skip scales")}

    def forward(self, x: Array, branch: Array, p: Mapping[str, Any]) -> tuple[Array, Any]:
        """x + α F."""
        return x + p["alpha"] * branch, branch

    def backward(self, dy: Array, p: Mapping[str, Any], cache: Any) -> tuple[Array | None, Array, Gradients]:
        """dx = dy along the skip, dF = α dy, dα = ⟨dy, F⟩."""
        return dy, p["alpha"] * dy, {"alpha": np.vdot(dy, cache)}


class GatedSkip(Skip):
    """y = x + g ⊙ F(x), one learned g per unit of every block."""

    name = "gated"
    formula = "x + g f(Wx + b), g learned per unit"
    start: float = 0.0
    """Where every entry of g starts; from 0 the network starts as the identity, as with ReZero."""

    def tensors(self, width: int, depth: int) -> Mapping[str, Tensor]:
        """g."""
        return {"gate": Tensor((width,), self.start, "gates")}

    def forward(self, x: Array, branch: Array, p: Mapping[str, Any]) -> tuple[Array, Any]:
        """x + g ⊙ F."""
        return x + p["gate"] * branch, branch

    def backward(self, dy: Array, p: Mapping[str, Any], cache: Any) -> tuple[Array | None, Array, Gradients]:
        """dx = dy along the skip, dF = g ⊙ dy, dg = Σ dy ⊙ F."""
        return dy, p["gate"] * dy, {"gate": np.sum(dy * cache, 0)}


class Glu(Skip):
    """y = F(x) ⊙ (x V + c), V and c learned: gated linear units, with silu as activation SwiGLU (Shazeer 2020)."""

    name = "glu"
    called = "gated linear units"
    formula = "f(Wx + b) ⊙ (V x + c), V and c learned"

    def tensors(self, width: int, depth: int) -> Mapping[str, Tensor]:
        """V ~ N(0, 1/h), and c = 0."""
        return {
            "gate_weight": Tensor((width, width), LecunNormal().weights, "gate weights"),
            "gate_bias": Tensor((width,), 0.0, "gate biases"),
        }

    def forward(self, x: Array, branch: Array, p: Mapping[str, Any]) -> tuple[Array, Any]:
        """F ⊙ (x V + c)."""
        gate = x @ p["gate_weight"] + p["gate_bias"]
        return branch * gate, (x, branch, gate)

    def backward(self, dy: Array, p: Mapping[str, Any], cache: Any) -> tuple[Array | None, Array, Gradients]:
        """dF = dy ⊙ (x V + c), dx = d Vᵀ with d = dy ⊙ F; dV = xᵀ d, dc = Σ d."""
        x, branch, gate = cache
        d = dy * branch
        return d @ p["gate_weight"].T, dy * gate, {"gate_weight": x.T @ d, "gate_bias": np.sum(d, 0)}


class DeepNorm(Skip):
    """y = LN(α x + F(x)), α = depth^¼ unless given: post-norm with DeepNet's scale (Wang et al. 2022)."""

    name = "deep_norm"
    called = "DeepNorm skip"
    formula = "LN(α x + f(Wx + b))"
    alpha: Annotated[float, Field(gt=0)] | None = None
    """Not given: depth^¼. DeepNet's encoder of N layers, each of two branches, has (2N)^¼."""
    epsilon: Annotated[float, Field(gt=0)] = 1e-5

    def constants(self, width: int, depth: int) -> Mapping[str, float]:
        """α."""
        return {"alpha": depth**0.25 if self.alpha is None else self.alpha}

    def tensors(self, width: int, depth: int) -> Mapping[str, Tensor]:
        """The norm's g = 1 and s = 0."""
        return {"gain": Tensor((width,), 1.0, "norm gains"), "shift": Tensor((width,), 0.0, "norm shifts")}

    def forward(self, x: Array, branch: Array, p: Mapping[str, Any]) -> tuple[Array, Any]:
        """LN(α x + F)."""
        total = p["alpha"] * x + branch
        centered = total - total.mean(1, keepdims=True)
        inverse = 1 / np.sqrt(np.mean(centered * centered, 1, keepdims=True) + self.epsilon)
        x_hat = centered * inverse
        return p["gain"] * x_hat + p["shift"], (x_hat, inverse)

    def backward(self, dy: Array, p: Mapping[str, Any], cache: Any) -> tuple[Array | None, Array, Gradients]:
        """d = (u − mean u − x̂ mean(u x̂))/σ with u = g ⊙ dy; dx = α d, dF = d."""
        x_hat, inverse = cache
        u = p["gain"] * dy
        d = inverse * (u - u.mean(1, keepdims=True) - x_hat * np.mean(u * x_hat, 1, keepdims=True))
        return p["alpha"] * d, d, {"gain": np.sum(dy * x_hat, 0), "shift": np.sum(dy, 0)}


class Highway(Skip):
    """y = T ⊙ F(x) + (1 − T) ⊙ x with T = σ(x W_T + b_T), W_T and b_T learned (Srivastava, Greff, Schmidhuber 2015)."""

    name = "highway"
    formula = "T f(Wx + b) + (1 − T) x, T = σ(V x + c) learned"
    bias_start: float = -2.0
    """Where every entry of b_T starts: a negative number lets the input pass at first."""

    def tensors(self, width: int, depth: int) -> Mapping[str, Tensor]:
        """W_T ~ N(0, 1/h), whatever the init of the layers is, and b_T."""
        return {
            "gate_weight": Tensor((width, width), LecunNormal().weights, "gate weights"),
            "gate_bias": Tensor((width,), self.bias_start, "gate biases"),
        }

    def forward(self, x: Array, branch: Array, p: Mapping[str, Any]) -> tuple[Array, Any]:
        """T ⊙ F + (1 − T) ⊙ x."""
        from scipy.special import expit

        gate: Array = expit(x @ p["gate_weight"] + p["gate_bias"])
        return gate * branch + (1 - gate) * x, (x, branch, gate)

    def backward(self, dy: Array, p: Mapping[str, Any], cache: Any) -> tuple[Array | None, Array, Gradients]:
        """dF = T ⊙ dy, dx = (1 − T) ⊙ dy + d W_Tᵀ with d = dy ⊙ (F − x) ⊙ T ⊙ (1 − T); dW_T = xᵀ d, db_T = Σ d."""
        x, branch, gate = cache
        d = dy * (branch - x) * gate * (1 - gate)
        along = (1 - gate) * dy + d @ p["gate_weight"].T
        return along, gate * dy, {"gate_weight": x.T @ d, "gate_bias": np.sum(d, 0)}
