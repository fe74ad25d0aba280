"""The words that a factor can be declared with, and how a declaration is read."""

from __future__ import annotations

from collections.abc import Iterable

from gradlab.errors import InvalidInput, nearest, shortened

FACTORS: dict[str, str] = {
    "model": "the architecture: layers, shapes, connections, and all that skip, activation, norm and dropout name",
    "skip": "how layers are connected: sums of earlier activations, concatenations, the scale of a branch",
    "activation": "activation functions",
    "norm": "normalization layers, with their parameters and buffers",
    "dropout": "dropout, as modules or as functions",
    "init": "initial values of the parameters",
    "frozen": "which parameters are trained",
    "optimizer": "the optimizer and its settings; if it is of another class, with its learning rate and weight decay",
    "lr": "learning rates",
    "schedule": "a learning-rate scheduler made in the factory",
    "weight_decay": "weight decay",
    "clip": "hooks on gradients and on the optimizer's step",
    "loss": "the loss",
    "data": "samples, labels, their number, their preprocessing",
    "order": "the sampler and the order of samples",
    "batch": "batch size and whether the last batch is dropped",
    "precision": "dtype and device",
    "mode": "training or evaluation mode",
    "seed": "draws of initial values and the order of samples, from the same distributions",
}
"""Name -> what may differ when it is declared."""
FORWARD = "forward pass"
"""What may differ when nothing is declared: how layers are connected, as with `skip`."""


def read_factor(given: str | Iterable[str] | None) -> tuple[str, ...]:
    """The declared factors, each once; `InvalidInput` names the nearest of an unknown one."""
    if given is None:
        return (FORWARD,)
    if not isinstance(given, str):
        if not isinstance(given, Iterable):
            raise InvalidInput(f"factor: {shortened(given)} is not a name; accepted: {', '.join(FACTORS)}")
        given = ",".join(str(name) for name in given)
    names = list(dict.fromkeys(name.strip() for name in given.split(",") if name.strip()))
    for name in names:
        if name not in FACTORS:
            raise InvalidInput(
                f"factor: {shortened(name)} is not known; accepted: {', '.join(FACTORS)}{nearest(name, FACTORS)}"
            )
    if not names:
        raise InvalidInput(f"factor: no name is given; accepted: {', '.join(FACTORS)}")
    return tuple(names)
