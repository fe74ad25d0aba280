"""Leave no trace: what the audit touches in a user's objects is recorded first and put back afterwards."""

from __future__ import annotations

import contextlib
import copy
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

import torch
from torch import Tensor, nn

SIMPLE = (int, float, complex, str, bytes, bool, type(None))
NOT_SEARCHED = (type, ModuleType, FunctionType, nn.Module, Tensor)
MOST = 1000
"""Objects that are put back at most."""
DEPTH = 4
"""How deep generators are searched for: loader, batch sampler, sampler, generator."""


@dataclass(frozen=True)
class RandomState:
    """The state of every generator that code uses without naming one."""

    python: Any
    numpy: Any
    torch: Tensor
    devices: tuple[Tensor, ...]

    @staticmethod
    def take() -> RandomState:
        """The state now."""
        devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
        return RandomState(random.getstate(), np.random.get_state(), torch.get_rng_state(), tuple(devices))

    def put(self) -> None:
        """Continue from here."""
        random.setstate(self.python)
        np.random.set_state(self.numpy)
        torch.set_rng_state(self.torch)
        if self.devices:
            torch.cuda.set_rng_state_all(list(self.devices))

    def same(self, other: RandomState) -> bool:
        """Whether the same number of random numbers was drawn from each."""
        numpy = all(np.array_equal(a, b) for a, b in zip(self.numpy, other.numpy, strict=True))
        return self.python == other.python and numpy and torch.equal(self.torch, other.torch)


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Undo what user code does to PyTorch's switches, and keep what it prints away from stdout."""
    dtype, grad, threads = torch.get_default_dtype(), torch.is_grad_enabled(), torch.get_num_threads()
    deterministic = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    try:
        with contextlib.redirect_stdout(sys.stderr), torch.enable_grad():
            yield
    finally:
        torch.set_default_dtype(dtype)
        torch.set_grad_enabled(grad)
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        if torch.are_deterministic_algorithms_enabled() != deterministic:
            torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)


class Kept:
    """The state of modules, optimizers and loaders as they were built; `restore` puts it back."""

    def __init__(self, modules: list[nn.Module], optimizers: tuple[Any, ...], others: list[Any]) -> None:
        self._modules = [_Module(inner) for module in modules for inner in module.modules()]
        self._optimizers = [_Optimizer(optimizer) for optimizer in optimizers]
        self._generators = [(each, _state_of(each)) for each in _generators(others, DEPTH)]
        self._others = [(each, _simple(each)) for each in _reached(others, DEPTH)]

    def restore(self) -> None:
        """Put everything back."""
        for module in self._modules:
            module.restore()
        for optimizer in self._optimizers:
            optimizer.restore()
        for generator, state in self._generators:
            _put_state(generator, state)
        for each, attributes in self._others:
            each.__dict__.update(attributes)


class _Module:
    def __init__(self, module: nn.Module) -> None:
        self.module, self.training, self.attributes = module, module.training, _simple(module)
        self.parameters = [
            (name, p, p.detach().clone(), p.requires_grad, p.grad, None if p.grad is None else p.grad.clone())
            for name, p in module._parameters.items()
            if p is not None
        ]
        self.buffers = [(name, b, b.detach().clone()) for name, b in module._buffers.items() if b is not None]

    def restore(self) -> None:
        self.module.__dict__.update(self.attributes)
        self.module.training = self.training
        with torch.no_grad():
            for name, parameter, values, requires_grad, grad, gradients in self.parameters:
                self.module._parameters[name] = parameter
                _write(parameter, values)
                parameter.requires_grad_(requires_grad)
                if grad is not None:
                    grad.copy_(gradients)
                parameter.grad = grad
            for name, buffer, values in self.buffers:
                self.module._buffers[name] = buffer
                _write(buffer, values)


def _write(tensor: Tensor, values: Tensor) -> None:
    if tensor.data_ptr() != values.data_ptr():
        tensor.detach().copy_(values)  # detached: a leaf that requires gradients may not be written to otherwise


class _Optimizer:
    def __init__(self, optimizer: Any) -> None:
        self.optimizer, self.attributes = optimizer, _simple(optimizer)
        self.state = {parameter: copy.deepcopy(own) for parameter, own in getattr(optimizer, "state", {}).items()}
        self.groups = [
            (group, {key: copy.copy(value) for key, value in group.items() if key != "params"}, list(group["params"]))
            for group in optimizer.param_groups
        ]

    def restore(self) -> None:
        self.optimizer.__dict__.update(self.attributes)
        if hasattr(self.optimizer, "state"):
            self.optimizer.state.clear()
            self.optimizer.state.update({parameter: copy.deepcopy(own) for parameter, own in self.state.items()})
        for group, settings, members in self.groups:
            group.clear()
            group.update({key: copy.copy(value) for key, value in settings.items()})
            group["params"] = members


def _simple(value: Any) -> dict[str, Any]:
    """Attributes that are plain values: counters and switches that a call may change."""
    own = getattr(value, "__dict__", None)
    return {} if not isinstance(own, dict) else {key: each for key, each in own.items() if type(each) in SIMPLE}


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


def _generators(values: list[Any], depth: int) -> list[Any]:
    kinds = (torch.Generator, np.random.Generator, np.random.RandomState, random.Random)
    every = [*values, *(inner for each in _reached(values, depth) for inner in list(vars(each).values()))]
    return list({id(each): each for each in every if isinstance(each, kinds)}.values())


def _state_of(generator: Any) -> Any:
    if isinstance(generator, torch.Generator | np.random.RandomState):
        return generator.get_state()
    if isinstance(generator, random.Random):
        return generator.getstate()
    return copy.deepcopy(generator.bit_generator.state)


def _put_state(generator: Any, state: Any) -> None:
    if isinstance(generator, torch.Generator | np.random.RandomState):
        generator.set_state(state)
    elif isinstance(generator, random.Random):
        generator.setstate(state)
    else:
        generator.bit_generator.state = state
