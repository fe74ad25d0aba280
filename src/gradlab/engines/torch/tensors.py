"""Find tensors and optimizers in the objects that user code passes around."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor

from gradlab.errors import InvalidInput, shortened


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Yield every tensor of a nested value, in order."""
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
    """Return the given optimizers (none, one or several), unwrapped from frameworks' wrappers."""
    listed = () if given is None else tuple(given) if isinstance(given, list | tuple) else (given,)
    bare = tuple(_unwrap(optimizer) for optimizer in listed)
    for optimizer in bare:
        if not hasattr(optimizer, "param_groups"):
            raise InvalidInput(
                f"optimizer: must have param_groups, like those of torch.optim; {shortened(optimizer)} has none"
            )
    return bare


def scaler_of(given: Any) -> Any:
    """Return the GradScaler that a framework's wrapper of an optimizer holds (accelerate's, Lightning's), or None."""
    listed = given if isinstance(given, list | tuple) else (given,)
    for optimizer in listed:
        strategy = getattr(optimizer, "_strategy", None)
        for holder in (optimizer, getattr(strategy, "precision_plugin", None)):
            scaler = getattr(holder, "scaler", None)
            if callable(getattr(scaler, "get_scale", None)):
                return scaler
    return None


def _unwrap(optimizer: Any) -> Any:
    """Return the inner optimizer of a wrapper: its steps are counted, because a wrapper may skip some."""
    inner = getattr(optimizer, "optimizer", None)
    return _unwrap(inner) if hasattr(inner, "register_step_post_hook") else optimizer
