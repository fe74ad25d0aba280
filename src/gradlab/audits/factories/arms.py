"""An arm as its factory builds it, with the batches its loader really gives next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
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
            return _call(self.model, copied(x))
        try:
            return _call(self.model, copied(x, device=first.device))
        except RuntimeError:
            if all(t.dtype == first.dtype for t in tensors_in(x) if t.is_floating_point()):
                raise
            return _call(self.model, copied(x, device=first.device, dtype=first.dtype))


def build(name: str, factory: Factory, seed: int) -> Arm:
    """Call a factory under the seed and read its data, as a training loop would go on."""
    seed_all(seed)
    model, optimizers, loader, loss = _checked(name, _called(name, "the factory", factory))
    built = RandomState.take()
    modules = [model, *([loss] if isinstance(loss, nn.Module) else [])]
    kept = Kept(modules, optimizers, [loader, loss, getattr(loader, "dataset", None)])
    batches = _called(name, "the loader", lambda: list(islice(iter(loader), BATCHES)))
    batches = [(dict(batch), find_labels(batch)) if isinstance(batch, Mapping) else batch for batch in batches]
    first = batches[0] if batches else None
    if not isinstance(first, list | tuple) or len(first) < 2:
        raise InvalidInput(
            f"audit: the loader of {name!r} has to give batches of (input, target) or dicts, not {_kind(first)}"
        )
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
    if loss is not None and not callable(loss):
        raise InvalidInput(
            f"audit: the loss of {name!r} has to be callable, as loss(output, target), or None if the model returns "
            f"its loss, not {_kind(loss)}"
        )
    return model, optimizers, loader, own_loss if loss is None else loss


def own_loss(output: Any, target: Any) -> Any:
    """The loss that a model returns itself, among its outputs."""
    found = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if not isinstance(found, Tensor):
        raise InvalidInput("audit: the loss is None, and the model does not return its loss")
    return found


def find_labels(batch: Mapping[str, Any]) -> Any:
    """The targets of a batch that is a dict, or None: they are then told to the model only."""
    return batch.get("labels", batch.get("label"))


def _call(model: nn.Module, x: Any) -> Any:
    """Call a model with an input, or with several if its `forward` takes them: as keywords those of a dict."""
    takes = list(signature(model.forward).parameters.values())
    if isinstance(x, Mapping) and (
        set(x) <= {each.name for each in takes} or any(p.kind is p.VAR_KEYWORD for p in takes)
    ):
        return model(**x)
    needed = [p for p in takes if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return model(*x) if isinstance(x, list | tuple) and len(needed) > 1 else model(x)


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
