"""An arm as its factory builds it, with the batches its loader really gives next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from torch.nn.parameter import is_lazy

import torch
from gradlab.audits.factories.guest import Kept, RandomState
from gradlab.audits.factories.samples import Samples, read_samples
from gradlab.engines.torch.tensors import optimizers_of, tensors_in
from gradlab.errors import InvalidInput, described, shortened
from gradlab.trials.seeding import seed_all
from torch import Tensor, nn

Factory = Callable[[], tuple[nn.Module, Any, Any, Any]]
BATCHES = 3
"""Batches that are loaded as in the training loop."""
FORM = "(model, optimizer, loader, loss)"


@dataclass
class Arm:
    """What a factory returned, and what was read from it before anything else was built."""

    name: str
    model: nn.Module
    optimizers: tuple[Any, ...]
    loader: Any
    loss: Any
    batches: list[Any]
    samples: Samples
    built: RandomState
    """The generators after building: where a training loop goes on."""
    kept: Kept

    def output(self, x: Any) -> Any:
        """The model's output; the input follows the model to its device and, if it has to, to its dtype."""
        first = next((p for p in self.model.parameters() if p.is_floating_point()), None)
        if first is None:
            return self.model(copied(x))
        try:
            return self.model(copied(x, device=first.device))
        except RuntimeError:
            if all(t.dtype == first.dtype for t in tensors_in(x) if t.is_floating_point()):
                raise
            return self.model(copied(x, device=first.device, dtype=first.dtype))


def build(name: str, factory: Factory, seed: int) -> Arm:
    """Call a factory under the seed and read its data, as a training loop would go on."""
    seed_all(seed)
    model, optimizers, loader, loss = _checked(name, _called(name, "the factory", factory))
    built = RandomState.take()
    modules = [model, *([loss] if isinstance(loss, nn.Module) else [])]
    kept = Kept(modules, optimizers, [loader, loss, getattr(loader, "dataset", None)])
    batches = _called(name, "the loader", lambda: list(islice(iter(loader), BATCHES)))
    first = batches[0] if batches else None
    if not isinstance(first, list | tuple) or len(first) < 2:
        raise InvalidInput(f"audit: the loader of {name!r} has to give batches of (input, target), not {_kind(first)}")
    kept.restore()
    built.put()
    samples = _called(name, "the data", lambda: read_samples(loader, kept, seed))
    return Arm(name, model, optimizers, loader, loss, copied(batches), samples, built, kept)


def _checked(name: str, made: Any) -> tuple[nn.Module, tuple[Any, ...], Any, Any]:
    if not isinstance(made, tuple | list) or len(made) != 4 or not isinstance(made[0], nn.Module):
        raise InvalidInput(f"audit: the factory of {name!r} has to return {FORM}, not {_kind(made)}")
    model: nn.Module = made[0]
    optimizer, loader, loss = made[1:]
    model = (
        model._orig_mod if hasattr(model, "_orig_mod") else model
    )  # a compiled model computes the same and cannot be looked into
    if any(is_lazy(parameter) for parameter in model.parameters()):
        raise InvalidInput(f"audit: the model of {name!r} has lazy parameters; call it once in the factory")
    try:
        optimizers = optimizers_of(optimizer)
    except InvalidInput as error:
        raise InvalidInput(f"audit: the optimizer of {name!r}: {error}") from None
    if not optimizers:
        raise InvalidInput(f"audit: the factory of {name!r} has to return {FORM}, but its optimizer is {optimizer!r}")
    if not callable(loss):
        raise InvalidInput(
            f"audit: the loss of {name!r} has to be callable, as loss(output, target), not {_kind(loss)}"
        )
    return model, optimizers, loader, loss


def _called(name: str, what: str, function: Callable[[], Any]) -> Any:
    """Call something of the user's own; whatever it raises is told in one line."""
    try:
        return function()
    except InvalidInput:
        raise
    except (Exception, SystemExit) as error:
        raise InvalidInput(f"audit: {what} of {name!r}: {described(error)}") from error


def _kind(value: Any) -> str:
    if isinstance(value, tuple | list):
        return f"({', '.join(type(each).__name__ for each in value[:6])})"
    return shortened(value) if value is None or isinstance(value, int | float | str) else f"a {type(value).__name__}"


def copied(value: Any, device: Any = None, dtype: torch.dtype | None = None) -> Any:
    """A nested value whose tensors are copies, moved if asked: a model may write into its input."""
    if isinstance(value, Tensor):
        kind = dtype if value.is_floating_point() else None
        return value.detach().clone().to(device=device, dtype=kind)
    if isinstance(value, dict):
        return {key: copied(each, device, dtype) for key, each in value.items()}
    if isinstance(value, list):
        return [copied(each, device, dtype) for each in value]
    if isinstance(value, tuple):
        each = [copied(inner, device, dtype) for inner in value]
        return type(value)(*each) if hasattr(value, "_fields") else tuple(each)
    return value
