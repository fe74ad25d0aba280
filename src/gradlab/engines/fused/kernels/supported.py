"""The parts that the kernels support, and which of their parameters they read.

This is the only such table. The fused engine refuses a part that is not listed, built in or the user's own, and a part
whose parameter no kernel reads: always, or unless it has its default where kernels compute what the default says
(`assumed`). Nothing here needs numba.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gradlab.parts import Catalog

IDENTITY, RELU, LEAKY_RELU, TANH, SIGMOID, GELU, SILU, GELU_TANH = range(8)
HARD_TANH, SOFTSIGN, ELU, SELU, SOFTPLUS, MISH, SQUARE = range(8, 15)
NONE, LAYER, RMS, BATCH = range(4)
CROSS_ENTROPY, MSE = range(2)
SGD, MOMENTUM, NESTEROV, RMSPROP, ADAM, ADAMW = range(6)
STRAIGHT, ADDS = range(2)


@dataclass(frozen=True)
class Kernel:
    """The code that kernels branch on, and the part's parameters that they read."""

    code: int
    parameters: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    """Parameters that no kernel reads; the kernels compute what their defaults say."""


ACTIVATIONS: Mapping[str, Kernel] = {
    "identity": Kernel(IDENTITY),
    "relu": Kernel(RELU),
    "leaky_relu": Kernel(LEAKY_RELU, ("negative_slope",)),
    "tanh": Kernel(TANH),
    "sigmoid": Kernel(SIGMOID),
    "gelu": Kernel(GELU),
    "gelu_tanh": Kernel(GELU_TANH),
    "silu": Kernel(SILU),
    "hard_tanh": Kernel(HARD_TANH),
    "softsign": Kernel(SOFTSIGN),
    "elu": Kernel(ELU, ("alpha",)),
    "selu": Kernel(SELU),
    "softplus": Kernel(SOFTPLUS),
    "mish": Kernel(MISH),
    "square": Kernel(SQUARE),
}
NORMS: Mapping[str, Kernel] = {
    "none": Kernel(NONE),
    "layer": Kernel(LAYER, ("epsilon",)),
    "rms": Kernel(RMS, ("epsilon",)),
    "batch": Kernel(BATCH, ("epsilon", "momentum")),
}
LOSSES: Mapping[str, Kernel] = {
    "cross_entropy": Kernel(CROSS_ENTROPY, assumed=("label_smoothing",)),
    "mse": Kernel(MSE),
}
OPTIMIZERS: Mapping[str, Kernel] = {
    "sgd": Kernel(SGD, ("weight_decay",)),
    "momentum": Kernel(MOMENTUM, ("momentum", "weight_decay")),
    "nesterov": Kernel(NESTEROV, ("momentum", "weight_decay")),
    "rmsprop": Kernel(RMSPROP, ("alpha", "epsilon", "weight_decay")),
    "adam": Kernel(ADAM, ("beta1", "beta2", "epsilon", "weight_decay")),
    "adamw": Kernel(ADAMW, ("beta1", "beta2", "epsilon", "weight_decay")),
}
SKIPS: Mapping[str, Kernel] = {
    "none": Kernel(STRAIGHT),
    "identity": Kernel(ADDS),
    "add_then_activate": Kernel(ADDS),
    "pre_activation": Kernel(ADDS),
    "scaled": Kernel(ADDS, ("scale",)),
    "rezero": Kernel(ADDS, ("start",)),
}
"""ADDS: y = x + α F(x). The part itself defines its place and α: `place`; `alpha` of `tensors` or `constants`."""

NEGATIVE = ("negative_slope", "alpha")
"""The one number of an activation that kernels read: of leaky ReLU and of ELU."""

_TABLES: Mapping[str, Mapping[str, Kernel]] = {
    "activation": ACTIVATIONS,
    "norm": NORMS,
    "skip": SKIPS,
    "loss": LOSSES,
    "optimizer": OPTIMIZERS,
}


def explain_unsupported(
    kind: str, name: str, catalog: Catalog, parameters: Mapping[str, Any] | None = None
) -> str | None:
    """Return why the kernels cannot train a network with this part and its parameters; None if they can."""
    kernel = _TABLES[kind].get(name)
    if kernel is None:
        return f"it has no kernel for the {kind} {name!r}"
    part = catalog.get(kind, name)
    unread = set(part.parameter_names()) - set(kernel.parameters)
    unread -= {key for key in kernel.assumed if (parameters or {}).get(key, part.default(key)) == part.default(key)}
    if unread:
        return f"its kernels do not read {', '.join(sorted(unread))} of the {kind} {name!r}"
    return None
