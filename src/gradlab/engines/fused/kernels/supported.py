"""What the kernels can train: every part they have a code for, and which of its parameters they read.

The one table of the fused engine. A part that is not in it, built in or the user's own, is refused; so is a part that
has a parameter which no kernel reads. Nothing here needs numba.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gradlab.parts import Catalog

IDENTITY, RELU, LEAKY_RELU, TANH, SIGMOID, GELU, SILU = range(7)
NONE, LAYER, RMS, BATCH = range(4)
CROSS_ENTROPY, MSE = range(2)
SGD, MOMENTUM, NESTEROV, RMSPROP, ADAM, ADAMW = range(6)
STRAIGHT, ADDS = range(2)


@dataclass(frozen=True)
class Kernel:
    """The code that kernels branch on, and the part's parameters that they read."""

    code: int
    parameters: tuple[str, ...] = ()


ACTIVATIONS: Mapping[str, Kernel] = {
    "identity": Kernel(IDENTITY),
    "relu": Kernel(RELU),
    "leaky_relu": Kernel(LEAKY_RELU, ("negative_slope",)),
    "tanh": Kernel(TANH),
    "sigmoid": Kernel(SIGMOID),
    "gelu": Kernel(GELU),
    "silu": Kernel(SILU),
}
NORMS: Mapping[str, Kernel] = {
    "none": Kernel(NONE),
    "layer": Kernel(LAYER, ("epsilon",)),
    "rms": Kernel(RMS, ("epsilon",)),
    "batch": Kernel(BATCH, ("epsilon", "momentum")),
}
LOSSES: Mapping[str, Kernel] = {"cross_entropy": Kernel(CROSS_ENTROPY), "mse": Kernel(MSE)}
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
"""ADDS: y = x + α F(x). Where it stands and what α is, the part says: `place`; `alpha` of `tensors` or `constants`."""

_TABLES: Mapping[str, Mapping[str, Kernel]] = {
    "activation": ACTIVATIONS,
    "norm": NORMS,
    "skip": SKIPS,
    "loss": LOSSES,
    "optimizer": OPTIMIZERS,
}


def unsupported(kind: str, name: str, catalog: Catalog) -> str | None:
    """Why the kernels cannot train a network with this part; None if they can."""
    found = _TABLES[kind].get(name)
    if found is None:
        return f"it has no kernel for the {kind} {name!r}"
    unread = set(catalog.get(kind, name).parameter_names()) - set(found.parameters)
    if unread:
        return f"its kernels do not read {', '.join(sorted(unread))} of the {kind} {name!r}"
    return None
