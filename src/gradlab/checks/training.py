"""A training set-up as the checks see it: model, batch, loss, optimizer, loaders, scheduler, step, metric.

Checks never run what the user gave. They run copies, made together, so that a copied optimizer holds the parameters of
the copied model, and a copied step closes over both. Random numbers are drawn inside `seeded`, which puts the
generators back. So model, optimizer, random state and loaders are afterwards what they were, bit for bit.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from gradlab.engines.torch.tensors import optimizers_of
from gradlab.errors import InvalidInput, described, nearest, shortened
from gradlab.torch.overfit import call_model, split_batch
from gradlab.torch.structure import unwrap_model

MODEL_NAMES = ("model", "net", "network", "module", "m")
"""A loss or metric whose first argument is called so takes the model; others take its outputs."""
MOST_SHARED = 2**22
"""Entries from which a tensor of a dataset is shared between copies instead of copied."""
RATE = 1e-3
"""Adam's rate where no optimizer was given."""
ACCEPTED = ("model", "batch", "loss", "optimizer", "loader", "val_loader", "scheduler", "step", "metric")


@dataclass(frozen=True)
class Training:
    """What `make()` returns, or what `gradlab.doctor` is given."""

    model: nn.Module
    batch: Any
    loss: Any = None
    optimizer: Any = None
    loader: Any = None
    val_loader: Any = None
    scheduler: Any = None
    step: Callable[..., Any] | None = None
    metric: Any = None
    takes_model: bool = False
    """Whether the loss is `loss(model, batch)`; otherwise it is `loss(output, target)`."""
    shared: tuple[str, ...] = field(default=(), compare=False)
    """What could not be copied."""

    @property
    def optimizers(self) -> tuple[Any, ...]:
        """The optimizers; none if none was given."""
        return optimizers_of(self.optimizer) if self.optimizer is not None else ()

    def copy(self) -> Training:
        """Copy everything together."""
        memo: dict[int, Any] = {}
        for loader in (self.loader, self.val_loader):
            _share_data(loader, memo)
        model = deepcopy(self.model, memo)
        copies: dict[str, Any] = {"model": model}
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name in ("model", "batch", "takes_model", "shared"):
                continue
            copies[each.name] = copy_with_closure(value, memo)
        copies["batch"] = deepcopy(self.batch, memo)
        for original, copy in zip(
            self.optimizers, optimizers_of(copies["optimizer"]) if self.optimizers else (), strict=True
        ):
            if hasattr(original, "_params"):  # LBFGS does not copy these
                copy._params, copy._numel_cache = copy.param_groups[0]["params"], None
        return replace(self, **copies)

    def with_batch(self, batch: Any) -> Training:
        """The same with another batch."""
        return replace(self, batch=batch)

    def evaluate_loss(self, batch: Any = None) -> Tensor:
        """Run the model on a batch and return its loss, which may hold several numbers if the user's does."""
        batch = self.batch if batch is None else batch
        if self.takes_model:
            return as_loss(self.loss(self.model, batch))
        given, target = split_batch(batch, self.loss)
        output = call_model(self.model, given)
        if self.loss is None:
            return as_loss(output)
        if target is None and not isinstance(output, Tensor):
            return as_loss(self.loss(output))
        return as_loss(self.loss(output, target))

    def make_step(self, batch: Any = None) -> float:
        """Make one training step as the user does, or as everybody does if there is no step; return its loss."""
        batch = self.batch if batch is None else batch
        if self.step is not None:
            value = self.step(self.model, batch, self.optimizer)
            return as_number(value)
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        value = self.evaluate_loss(batch)
        value.mean().backward()
        for optimizer in self.optimizers:
            optimizer.step(lambda: value) if type(optimizer).__name__ == "LBFGS" else optimizer.step()
        return float(value.detach().mean())


def as_number(value: Any) -> float:
    """Read what a step returns as its loss; NaN if it is no number."""
    try:
        if isinstance(value, Tensor):
            return float(value.detach().float().mean())
        if isinstance(value, Mapping):
            return as_number(value.get("loss", next(iter(value.values()))))
        if isinstance(value, tuple | list):
            return as_number(value[0])
        return float(value)
    except (TypeError, ValueError, IndexError, StopIteration, RuntimeError):
        return float("nan")


def as_loss(value: Any) -> Tensor:
    """Read what a loss function, or a model that returns its loss, has returned."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, Mapping) and "loss" in value:
        return as_loss(value["loss"])
    if getattr(value, "loss", None) is not None:
        return as_loss(value.loss)
    if isinstance(value, tuple | list) and value and isinstance(value[0], Tensor):
        return as_loss(value[0])
    raise InvalidInput(f"loss: must return a tensor, not {shortened(value)}")


# ---------------------------------------------------------------------- reading what was given


def read_training(given: Any) -> Training:
    """Read what a factory returns: (model, batch, loss), or a dict with more."""
    if isinstance(given, Training):
        return given
    if isinstance(given, tuple | list) and len(given) == 3:
        given = dict(zip(("model", "batch", "loss"), given, strict=True))
    if not isinstance(given, Mapping):
        raise InvalidInput(
            "must return (model, batch, loss), or a dict with model, batch, loss and, where there are any, "
            f"{', '.join(ACCEPTED[3:])}; not {shortened(given)}"
        )
    for name in given:
        if name not in ACCEPTED:
            raise InvalidInput(f"{name!r} is not known; accepted: {', '.join(ACCEPTED)}{nearest(str(name), ACCEPTED)}")
    if given.get("model") is None:
        raise InvalidInput("model: is missing")
    parts = dict(given)
    model = unwrap_model(parts.pop("model"))
    if parts.get("batch") is None:
        if parts.get("loader") is None:
            raise InvalidInput("batch: give a batch, or a loader whose first batch is taken")
        parts["batch"] = next(iter(list(islice(iterate(parts["loader"]), 1))), None)
        if parts["batch"] is None:
            raise InvalidInput("loader: it yields no batch (is the batch larger than the data, with drop_last=True?)")
    for name in ("loss", "step", "metric"):
        if parts.get(name) is not None and not callable(parts[name]):
            raise InvalidInput(f"{name}: must be a function, not {shortened(parts[name])}")
    parts.setdefault("loss", None)
    return Training(model, **{**parts, "takes_model": takes_model(parts["loss"])})


def takes_model(function: Any) -> bool:
    """Whether a function takes the model itself: its first argument is called model (net, network), or is a Module."""
    if function is None or isinstance(function, nn.Module):
        return False
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return False
    if not parameters:
        return False
    first = parameters[0]
    second = parameters[1].name if len(parameters) > 1 else ""
    kind = first.annotation
    by_type = isinstance(kind, type) and issubclass(kind, nn.Module)
    by_text = isinstance(kind, str) and kind.split(".")[-1] == "Module"
    return first.name.lower() in MODEL_NAMES or by_type or by_text or second.lower() == "batch"


# ---------------------------------------------------------------------- copies


def copy_with_closure(value: Any, memo: dict[int, Any]) -> Any:
    """Copy an object; a function together with what it closes over, its defaults and the globals that it reads."""
    if id(value) in memo:
        return memo[id(value)]
    if isinstance(value, types.FunctionType):
        return _copy_function(value, memo)
    if isinstance(value, types.MethodType):
        return types.MethodType(value.__func__, copy_with_closure(value.__self__, memo))
    if isinstance(value, partial):
        given = [copy_with_closure(each, memo) for each in value.args]
        named = {name: copy_with_closure(each, memo) for name, each in value.keywords.items()}
        return partial(copy_with_closure(value.func, memo), *given, **named)
    if value is None or isinstance(value, type | types.ModuleType | types.BuiltinFunctionType):
        return value
    if isinstance(value, list | tuple | dict) and type(value) in (list, tuple, dict):
        if isinstance(value, dict):
            made: Any = {key: copy_with_closure(each, memo) for key, each in value.items()}
        else:
            made = type(value)(copy_with_closure(each, memo) for each in value)
        memo[id(value)] = made
        return made
    return deepcopy(value, memo)


def _copy_function(function: types.FunctionType, memo: dict[int, Any]) -> Any:
    scope = _copied_globals(function, memo)
    cells = tuple(types.CellType() for _ in function.__closure__ or ())
    made = types.FunctionType(function.__code__, scope, function.__name__, None, cells or None)
    memo[id(function)] = made
    memo.setdefault(-1, []).append(function)  # ids stay valid while it is held
    for cell, original in zip(cells, function.__closure__ or (), strict=True):
        try:
            contents = original.cell_contents
        except ValueError:  # not filled yet
            continue
        cell.cell_contents = copy_with_closure(contents, memo)
    made.__defaults__ = copy_with_closure(function.__defaults__, memo)
    made.__kwdefaults__ = copy_with_closure(function.__kwdefaults__, memo)
    made.__dict__.update(function.__dict__)
    for name in _names_in(function.__code__):
        if name in function.__globals__ and _is_state(function.__globals__[name], function.__globals__, memo):
            scope[name] = copy_with_closure(function.__globals__[name], memo)
    return made


def _copied_globals(function: types.FunctionType, memo: dict[int, Any]) -> dict[str, Any]:
    key = id(function.__globals__)
    if key not in memo:
        memo[key] = dict(function.__globals__)
    scope: dict[str, Any] = memo[key]
    return scope


def _names_in(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names_in(constant)


def _is_state(value: Any, scope: dict[str, Any], memo: dict[int, Any]) -> bool:
    """Whether a global is something that training may change: known already, a tensor, a module, a function of it."""
    if id(value) in memo or isinstance(value, Tensor | nn.Module | torch.optim.Optimizer | list | dict):
        return True
    if isinstance(value, types.FunctionType):
        return value.__globals__ is scope
    kind = type(value).__module__
    return kind.startswith("torch.") and hasattr(value, "state_dict")


def _share_data(loader: Any, memo: dict[int, Any]) -> None:
    """Let copies share the large tensors of a dataset."""
    dataset = getattr(loader, "dataset", None)
    for _ in range(4):
        for value in list(getattr(dataset, "__dict__", {}).values()):
            for one in value if isinstance(value, list | tuple) and len(value) < 64 else (value,):
                if isinstance(one, Tensor) and one.numel() >= MOST_SHARED:
                    memo[id(one)] = one
        dataset = getattr(dataset, "dataset", None)


def iterate(loader: Any) -> Iterator[Any]:
    """Go through a loader without using it up: its copy, so that its own order and generator stay as they are."""
    if hasattr(loader, "__next__"):  # to call iter() would draw from its generator
        raise InvalidInput("loader: it is an iterator, which would be used up; give what can be gone through again")
    memo: dict[int, Any] = {}
    _share_data(loader, memo)
    try:
        copied = deepcopy(loader, memo)
    except Exception as error:
        raise InvalidInput(f"loader: cannot be copied ({described(error)})") from None
    if getattr(copied, "num_workers", 0):
        vars(copied).update(num_workers=0, prefetch_factor=None, _DataLoader__multiprocessing_context=None)
        vars(copied).update(persistent_workers=False, timeout=0)
    yield from copied


# ---------------------------------------------------------------------- batches as trees of tensors


def map_tensors(change: Callable[[Tensor], Any], value: Any) -> Any:
    """Return the same nesting with every tensor replaced."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, Mapping):
        changed = {key: map_tensors(change, each) for key, each in value.items()}
        return changed if type(value) is dict else _rebuild(value, changed)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(map_tensors(change, each) for each in value))
    if isinstance(value, tuple | list):
        return type(value)(map_tensors(change, each) for each in value)
    return value


def _rebuild(value: Mapping[Any, Any], changed: dict[Any, Any]) -> Any:
    try:
        return type(value)(changed)  # type: ignore[call-arg]
    except TypeError:
        return changed


def leaves(value: Any) -> list[Tensor]:
    """Return the tensors of a nesting, in order."""
    found: list[Tensor] = []
    map_tensors(lambda tensor: found.append(tensor), value)
    if not found and not isinstance(value, Tensor | Mapping | tuple | list) and hasattr(value, "__dict__"):
        found = [each for each in vars(value).values() if isinstance(each, Tensor)]
    return found


def replace_leaf(value: Any, place: int, tensor: Tensor) -> Any:
    """Return the nesting with its tensor at a place replaced."""
    count = iter(range(1_000_000))
    return map_tensors(lambda each: tensor if next(count) == place else each, value)


def count_samples(value: Any) -> int:
    """Return the most common first size of the tensors of a batch."""
    sizes = [len(tensor) for tensor in leaves(value) if tensor.dim()]
    return max(set(sizes), key=lambda size: (sizes.count(size), -sizes.index(size))) if sizes else 0


def permute_samples(value: Any, order: Tensor, places: Sequence[int] | None = None) -> Any:
    """Reorder the samples of a batch, or only of its tensors at these places."""
    count = iter(range(1_000_000))

    def change(tensor: Tensor) -> Tensor:
        place = next(count)
        if (places is None or place in places) and tensor.dim() and len(tensor) == len(order):
            return tensor[order.to(tensor.device)]
        return tensor

    return map_tensors(change, value)
