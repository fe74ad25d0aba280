"""Leave no trace: what the audit touches in PyTorch and in a user's objects is recorded and put back."""

from __future__ import annotations

import contextlib
import copy
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

# PyTorch's global switches: what a factory turns is compared between arms, and turned back.

MODULES = {
    "mkldnn": ("enabled", "deterministic", "allow_tf32"),
    "cudnn": ("enabled", "benchmark", "deterministic", "allow_tf32"),
    "cuda.matmul": ("allow_tf32", "allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction"),
    "nnpack": ("enabled",),
    "opt_einsum": ("enabled", "strategy"),
}
"""Attributes of torch.backends that change what is computed."""
ATTENTION = ("flash", "mem_efficient", "math", "cudnn")


def _flushes() -> bool:
    """Whether the CPU takes denormal numbers for 0; PyTorch sets it and cannot be asked."""
    return not float(torch.tensor(1e-310, dtype=torch.float64) * 0.5)


def _put_deterministic(value: tuple[bool, bool]) -> None:
    torch.use_deterministic_algorithms(value[0], warn_only=value[1])


Pair = tuple[Callable[[], Any], Callable[[Any], Any]]


def _functions() -> Iterator[tuple[str, Pair]]:
    """Switch -> how it is read and turned."""
    yield "default dtype", (torch.get_default_dtype, torch.set_default_dtype)
    yield "default device", (torch.get_default_device, torch.set_default_device)
    yield "gradients", (torch.is_grad_enabled, torch.set_grad_enabled)
    yield "threads", (torch.get_num_threads, torch.set_num_threads)
    yield "float32 matmul precision", (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision)
    yield "flush denormal", (_flushes, torch.set_flush_denormal)
    read = torch.are_deterministic_algorithms_enabled, torch.is_deterministic_algorithms_warn_only_enabled
    yield "deterministic algorithms", (lambda: (read[0](), read[1]()), _put_deterministic)
    for device in ("cpu", "cuda"):
        turn = partial(torch.set_autocast_enabled, device)
        yield f"autocast on {device}", (partial(torch.is_autocast_enabled, device), turn)
    for module, attributes in MODULES.items():
        owner: Any = torch.backends
        for part in module.split("."):
            owner = getattr(owner, part, None)
        for name in attributes:
            if hasattr(type(owner), name) or hasattr(owner, name):
                yield f"{module}.{name}", (partial(getattr, owner, name), partial(setattr, owner, name))
    for kind in ATTENTION:
        enabled = getattr(torch.backends.cuda, f"{kind}_sdp_enabled", None)
        enable = getattr(torch.backends.cuda, f"enable_{kind}_sdp", None)
        if enabled is not None and enable is not None:
            yield f"{kind} attention", (enabled, enable)


@dataclass(frozen=True)
class Switches:
    """The position of every switch."""

    values: dict[str, Any]

    @staticmethod
    def take() -> Switches:
        """The positions now; a switch that this build of PyTorch does not have is left out."""
        found = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name, (read, _) in _functions():
                with contextlib.suppress(Exception):
                    found[name] = read()
        return Switches(found)

    def put(self) -> None:
        """Turn every switch that is elsewhere back."""
        now = Switches.take().values
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name, (_, turn) in _functions():
                if name in self.values and now.get(name) != self.values[name]:
                    with contextlib.suppress(Exception):
                        turn(self.values[name])

    def turned(self, base: Switches) -> list[str]:
        """The switches that are not where they were."""
        return [f"{name} {value}" for name, value in self.values.items() if base.values.get(name) != value]


# Leave no trace: what the audit touches in a user's objects is recorded first and put back afterwards.

SIMPLE = (int, float, complex, str, bytes, bool, type(None))
NOT_SEARCHED = (type, ModuleType, FunctionType, nn.Module, Tensor)
MOST = 1000
"""Objects that are put back at most."""
GENERATORS = (torch.Generator, np.random.Generator, np.random.RandomState, random.Random)
DEPTH = 4
"""How deep generators are searched for: loader, batch sampler, sampler, generator."""


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Undo what user code does to PyTorch's switches, and keep what it prints away from stdout."""
    switches = Switches.take()
    try:
        with contextlib.redirect_stdout(sys.stderr), torch.enable_grad():
            yield
    finally:
        switches.put()


Restore = Callable[[], None]


class Kept:
    """The state of modules, optimizers and loaders as they were built; `restore` puts it back."""

    def __init__(self, modules: list[nn.Module], optimizers: tuple[Any, ...], others: list[Any]) -> None:
        reached = _reached(others, DEPTH)
        inside = [inner for each in reached for inner in list(vars(each).values())]
        generators = {id(each): each for each in (*others, *inside) if isinstance(each, GENERATORS)}
        self._restore = [
            *(_keep_module(inner) for module in modules for inner in module.modules()),
            *map(_keep_optimizer, optimizers),
            *map(_keep_generator, generators.values()),
            *map(_keep_attributes, reached),
        ]

    def restore(self) -> None:
        """Put everything back."""
        for restore in self._restore:
            restore()


def _keep_module(module: nn.Module) -> Restore:
    keep_attributes, training = _keep_attributes(module), module.training
    parameters = [
        (name, p, p.detach().clone(), p.requires_grad, p.grad, None if p.grad is None else p.grad.clone())
        for name, p in module._parameters.items()
        if p is not None
    ]
    buffers = [(name, b, b.detach().clone()) for name, b in module._buffers.items() if b is not None]

    def restore() -> None:
        keep_attributes()
        module.training = training
        with torch.no_grad():
            for name, parameter, values, requires_grad, grad, gradients in parameters:
                module._parameters[name] = parameter
                _write(parameter, values)
                parameter.requires_grad_(requires_grad)
                if grad is not None:
                    grad.copy_(gradients)
                parameter.grad = grad
            for name, buffer, values in buffers:
                module._buffers[name] = buffer
                _write(buffer, values)

    return restore


def _write(tensor: Tensor, values: Tensor) -> None:
    if tensor.data_ptr() != values.data_ptr():
        tensor.detach().copy_(values)  # detached: a leaf that requires gradients may not be written to otherwise


def _keep_optimizer(optimizer: Any) -> Restore:
    keep_attributes = _keep_attributes(optimizer)
    state = {parameter: copy.deepcopy(held) for parameter, held in getattr(optimizer, "state", {}).items()}
    groups = [
        (group, {key: copy.copy(value) for key, value in group.items() if key != "params"}, list(group["params"]))
        for group in optimizer.param_groups
    ]

    def restore() -> None:
        keep_attributes()
        if hasattr(optimizer, "state"):
            optimizer.state.clear()
            optimizer.state.update({parameter: copy.deepcopy(held) for parameter, held in state.items()})
        for group, settings, members in groups:
            group.clear()
            group.update({key: copy.copy(value) for key, value in settings.items()}, params=members)

    return restore


def _keep_generator(generator: Any) -> Restore:
    if isinstance(generator, np.random.Generator):
        return partial(setattr, generator.bit_generator, "state", copy.deepcopy(generator.bit_generator.state))
    if isinstance(generator, random.Random):
        return partial(generator.setstate, generator.getstate())
    return partial(generator.set_state, generator.get_state())


def _keep_attributes(value: Any) -> Restore:
    """Of attributes, those that are plain values: counters and switches that a call may change."""
    simple = {key: each for key, each in getattr(value, "__dict__", {}).items() if type(each) in SIMPLE}
    return lambda: value.__dict__.update(simple)


def _reached(values: list[Any], depth: int) -> list[Any]:
    """Objects with attributes that these hold, and what those hold."""
    found: dict[int, Any] = {}
    layer = values
    for _ in range(depth):
        fresh = [each for each in layer if _has_attributes(each) and id(each) not in found]
        found.update({id(each): each for each in fresh})
        layer = [inner for each in fresh for inner in list(vars(each).values())]
    return list(found.values())[:MOST]


def _has_attributes(value: Any) -> bool:
    return isinstance(getattr(value, "__dict__", None), dict) and not isinstance(value, NOT_SEARCHED)
