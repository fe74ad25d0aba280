"""Highway: a learned gate, computed from the input, divides between the branch and the input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gradlab.network.inits.lecun_normal import LecunNormal
from gradlab.network.skips.base import Array, Gradients, Skip
from gradlab.network.tensors import Tensor


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
