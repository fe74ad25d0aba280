"""Leave no trace: what the audit touches in PyTorch and in a user's objects is recorded and put back."""

from __future__ import annotations

import contextlib
import copy
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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
        yield (
            f"autocast on {device}",
            (
                lambda device=device: torch.is_autocast_enabled(device),  # type: ignore[misc]
                lambda value, device=device: torch.set_autocast_enabled(device, value),  # type: ignore[misc]
            ),
        )
    for module, attributes in MODULES.items():
        owner: Any = torch.backends
        for part in module.split("."):
            owner = getattr(owner, part, None)
        for attribute in attributes:
            if hasattr(type(owner), attribute) or hasattr(owner, attribute):
                yield (
                    f"{module}.{attribute}",
                    (
                        lambda owner=owner, attribute=attribute: getattr(owner, attribute),  # type: ignore[misc]
                        lambda value, owner=owner, attribute=attribute: setattr(owner, attribute, value),  # type: ignore[misc]
                    ),
                )
    for kind in ATTENTION:
        enabled, enable = (
            getattr(torch.backends.cuda, name, None) for name in (f"{kind}_sdp_enabled", f"enable_{kind}_sdp")
        )
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
DEPTH = 4
"""How deep generators are searched for: loader, batch sampler, sampler, generator."""


@dataclass(frozen=True)
class RandomState:
    """The state of every generator that code uses without naming one."""

    python: Any
    numpy: Any
    torch: Tensor
    devices: tuple[Tensor, ...]
    seed: int
    """The seed that PyTorch's generator was last given."""

    @staticmethod
    def take() -> RandomState:
        """The state now."""
        devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
        return RandomState(
            random.getstate(), np.random.get_state(), torch.get_rng_state(), tuple(devices), torch.initial_seed()
        )

    def put(self) -> None:
        """Continue from here."""
        random.setstate(self.python)
        np.random.set_state(self.numpy)
        torch.set_rng_state(self.torch)
        if self.devices:
            torch.cuda.set_rng_state_all(list(self.devices))

    def same(self, other: RandomState) -> bool:
        """Whether the same number of random numbers was drawn from each."""
        return self.same_outside_torch(other) and torch.equal(self.torch, other.torch)

    def same_outside_torch(self, other: RandomState) -> bool:
        """Whether the same number of random numbers was drawn from Python's and from NumPy's generator."""
        numpy = all(np.array_equal(a, b) for a, b in zip(self.numpy, other.numpy, strict=True))
        return self.python == other.python and numpy


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Undo what user code does to PyTorch's switches, and keep what it prints away from stdout."""
    switches = Switches.take()
    try:
        with contextlib.redirect_stdout(sys.stderr), torch.enable_grad():
            yield
    finally:
        switches.put()


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
