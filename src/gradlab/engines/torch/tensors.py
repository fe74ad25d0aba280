"""Tensors and optimizers in whatever user code passes around."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gradlab.errors import InvalidInput, shortened
from torch import Tensor


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Every tensor of a nested value, in order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from tensors_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from tensors_in(inner)
    elif hasattr(value, "to_tuple"):  # a model output of transformers
        yield from tensors_in(value.to_tuple())


def optimizers_of(given: Any) -> tuple[Any, ...]:
    """The optimizers that were given, none, one or several, out of the wrappers that frameworks put them in."""
    listed = () if given is None else tuple(given) if isinstance(given, list | tuple) else (given,)
    bare = tuple(_bare(optimizer) for optimizer in listed)
    for optimizer in bare:
        if not hasattr(optimizer, "param_groups"):
            raise InvalidInput(
                f"an optimizer has param_groups, as those of torch.optim; {shortened(optimizer)} has none"
            )
    return bare


def _bare(optimizer: Any) -> Any:
    """The steps of the optimizer inside are counted: a wrapper may skip some."""
    inner = getattr(optimizer, "optimizer", None)
    return _bare(inner) if hasattr(inner, "register_step_post_hook") else optimizer
