"""Activations, skips, norms and losses in torch: the built-in ones natively, any other part through its NumPy code.

A part of the user's own runs on the torch engine at once: its forward and backward are wrapped as an autograd function,
on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch.nn.functional as nnf

import torch
from gradlab.network.activations.base import Activation
from gradlab.network.losses.base import Loss
from gradlab.network.norms.base import Norm
from gradlab.network.skips.base import Skip
from torch import Tensor

NATIVE: dict[str, Callable[..., Tensor]] = {
    "identity": lambda x: x,
    "relu": torch.relu,
    "leaky_relu": lambda x, negative_slope: nnf.leaky_relu(x, negative_slope),
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "gelu": nnf.gelu,
    "gelu_tanh": lambda x: nnf.gelu(x, approximate="tanh"),
    "silu": nnf.silu,
}

Named = Mapping[str, Any]
"""Tensors of a norm or a skip by name; a skip's constants are floats among them."""


def _highway(x: Tensor, branch: Tensor, p: Named) -> Tensor:
    gate = torch.sigmoid(x @ p["gate_weight"] + p["gate_bias"])
    return gate * branch + (1 - gate) * x


SKIPS: dict[str, Callable[[Tensor, Tensor, Named], Tensor]] = {
    "none": lambda x, branch, p: branch,
    "identity": lambda x, branch, p: x + branch,
    "add_then_activate": lambda x, branch, p: x + branch,
    "pre_activation": lambda x, branch, p: x + branch,
    "scaled": lambda x, branch, p: x + p["alpha"] * branch,
    "rezero": lambda x, branch, p: x + p["alpha"] * branch,
    "gated": lambda x, branch, p: x + p["gate"] * branch,
    "highway": _highway,
}


def _is_built_in(part: Any) -> bool:
    return type(part).__module__.startswith("gradlab.")


def make_activation(part: Activation) -> Callable[[Tensor], Tensor]:
    """Return f as a function of tensors."""
    if _is_built_in(part) and part.name in NATIVE:
        native, parameters = NATIVE[part.name], part.parameters()
        return lambda x: native(x, **parameters)
    return lambda x: _Elementwise.apply(x, part)


class _Elementwise(torch.autograd.Function):
    """dx = dy f'(x), with the part's slope."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, part: Activation) -> Tensor:
        y = part.forward(x.detach().cpu().numpy())
        ctx.slope = torch.as_tensor(part.slope(x.detach().cpu().numpy(), y), dtype=x.dtype, device=x.device)
        return torch.as_tensor(y, dtype=x.dtype, device=x.device)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return grads[0] * ctx.slope, None


def apply_skip(part: Skip, x: Tensor, branch: Tensor, p: Named) -> Tensor:
    """skip(x, F)."""
    if _is_built_in(part) and part.name in SKIPS:
        return SKIPS[part.name](x, branch, p)
    if part.is_earlier:  # autograd has always gone through its arithmetic; the same bits
        through: Tensor = part.combine(x, branch, p["alpha"])  # type: ignore[attr-defined]
        return through
    learned = [name for name, value in p.items() if isinstance(value, Tensor)]
    found: Tensor = _Skip.apply(x, branch, part, p, learned, *(p[name] for name in learned))
    return found


class _Skip(torch.autograd.Function):
    """Any skip, by its own forward and backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, branch: Tensor, part: Skip, p: Named, learned: list[str], *own: Tensor) -> Tensor:
        ctx.part, ctx.learned, ctx.like, ctx.p = part, learned, (x, *own), _in_numpy(p)
        y, ctx.cache = part.forward(_numpy(x), _numpy(branch), ctx.p)
        return _like(y, x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        along, to_branch, found = ctx.part.backward(_numpy(grads[0]), ctx.p, ctx.cache)
        x, *own = ctx.like
        gradients = [_like(found[name], tensor) for name, tensor in zip(ctx.learned, own, strict=True)]
        return (None if along is None else _like(along, x), _like(to_branch, x), None, None, None, *gradients)


def _numpy(tensor: Tensor) -> Any:
    return tensor.detach().cpu().numpy()


def _in_numpy(p: Named) -> Named:
    return {name: _numpy(value) if isinstance(value, Tensor) else value for name, value in p.items()}


def _like(values: Any, tensor: Tensor) -> Tensor:
    """Numbers that NumPy computed as a tensor of the same shape, type and place."""
    return torch.as_tensor(values, dtype=tensor.dtype, device=tensor.device).reshape(tensor.shape)


def apply_norm(part: Norm, x: Tensor, p: Named, running: Any, training: bool) -> tuple[Tensor, Any]:
    """norm(x) and the running statistics after it."""
    if not _is_built_in(part) or part.name not in ("none", "layer", "rms", "batch", "dynamic_tanh"):
        return _wrapped_norm(part, x, p, running, training)
    if part.name == "none":
        return x, running
    gain, shift = p["gain"], p.get("shift")
    if part.name == "dynamic_tanh":
        return gain * torch.tanh(p["alpha"] * x) + shift, running
    epsilon = float(part.parameters()["epsilon"])
    if part.name == "layer":
        return nnf.layer_norm(x, x.shape[1:], gain, shift, epsilon), running
    if part.name == "rms":
        return nnf.rms_norm(x, x.shape[1:], gain, epsilon), running
    mean, variance = running
    if not training:
        return nnf.batch_norm(x, mean, variance, gain, shift, False, 0.0, epsilon), running
    if len(x) == 1:  # torch refuses one sample; Gradlab normalizes it to 0 and does not update the variance
        centered = x - x.mean(0)
        momentum = float(part.parameters()["momentum"])
        return gain * centered + shift, (mean + momentum * (x.detach().mean(0) - mean), variance)
    after = mean.clone(), variance.clone()
    y = nnf.batch_norm(x, after[0], after[1], gain, shift, True, float(part.parameters()["momentum"]), epsilon)
    return y, after


def _wrapped_norm(part: Norm, x: Tensor, p: Named, running: Any, training: bool) -> tuple[Tensor, Any]:
    memory: list[Any] = []
    y = _Norm.apply(x, part, tuple(p), running, training, memory, *p.values())
    return y, memory[0]


class _Norm(torch.autograd.Function):
    """Any norm, through its forward and backward."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, part: Norm, names: tuple[str, ...], running: Any, training: bool, memory: Any, *own: Tensor
    ) -> Tensor:
        ctx.part, ctx.names, ctx.like = part, names, (x, *own)
        ctx.p = {name: _numpy(tensor) for name, tensor in zip(names, own, strict=True)}
        y, ctx.cache, after = part.forward(_numpy(x), ctx.p, running, training)
        memory.append(after)
        return _like(y, x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        dx, found = ctx.part.backward(_numpy(grads[0]), ctx.p, ctx.cache)
        x, *own = ctx.like
        gradients = [_like(found[name], tensor) for name, tensor in zip(ctx.names, own, strict=True)]
        return (_like(dx, x), None, None, None, None, None, *gradients)


def loss_value(part: Loss, output: Tensor, target: Tensor) -> Tensor:
    """Return L(output, target)."""
    if _is_built_in(part) and part.name == "cross_entropy":
        return nnf.cross_entropy(output, target)
    if _is_built_in(part) and part.name == "mse":
        return nnf.mse_loss(output, target)
    found: Tensor = _Loss.apply(output, target, part)
    return found


class _Loss(torch.autograd.Function):
    """Any loss, through its gradient."""

    @staticmethod
    def forward(ctx: Any, output: Tensor, target: Tensor, part: Loss) -> Tensor:
        value, gradient = part.value_and_gradient(output.detach().cpu().numpy(), target.cpu().numpy())
        ctx.gradient = torch.as_tensor(gradient, dtype=output.dtype, device=output.device)
        return torch.as_tensor(value, dtype=output.dtype, device=output.device)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return grads[0] * ctx.gradient, None, None
