"""Activations, norms and losses in torch: built-in ones natively, any other part through its NumPy code.

A user part works with the torch engine without changes: its forward and backward are wrapped as an autograd function,
on the CPU. Only a skip is called with tensors, because its `combine` is plain arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.nn.functional as nnf

import torch
from gradlab.network.activations.base import Activation
from gradlab.network.losses.base import Loss
from gradlab.network.norms.base import Norm
from torch import Tensor

NATIVE: dict[str, Callable[..., Tensor]] = {
    "identity": lambda x: x,
    "relu": torch.relu,
    "leaky_relu": lambda x, negative_slope: nnf.leaky_relu(x, negative_slope),
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "gelu": nnf.gelu,
    "silu": nnf.silu,
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


def apply_norm(
    part: Norm, x: Tensor, gain: Tensor | None, shift: Tensor | None, running: Any, training: bool
) -> tuple[Tensor, Any]:
    """Return norm(x) and the updated running statistics."""
    if not _is_built_in(part) or part.name not in ("none", "layer", "rms", "batch"):
        return _wrapped_norm(part, x, gain, shift, running, training)
    if part.name == "none":
        return x, running
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
        assert gain is not None
        assert shift is not None
        momentum = float(part.parameters()["momentum"])
        return gain * centered + shift, (mean + momentum * (x.detach().mean(0) - mean), variance)
    after = mean.clone(), variance.clone()
    y = nnf.batch_norm(x, after[0], after[1], gain, shift, True, float(part.parameters()["momentum"]), epsilon)
    return y, after


def _wrapped_norm(
    part: Norm, x: Tensor, gain: Tensor | None, shift: Tensor | None, running: Any, training: bool
) -> tuple[Tensor, Any]:
    memory: list[Any] = []
    y = _Norm.apply(x, gain, shift, part, running, training, memory)
    return y, memory[0]


class _Norm(torch.autograd.Function):
    """Any norm, through its forward and backward."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        gain: Tensor | None,
        shift: Tensor | None,
        part: Norm,
        running: Any,
        training: bool,
        memory: Any,
    ) -> Tensor:
        arrays: list[Any] = [None if t is None else t.detach().cpu().numpy() for t in (x, gain, shift)]
        y, cache, after = part.forward(arrays[0], arrays[1], arrays[2], running, training)
        memory.append(after)
        ctx.part, ctx.cache, ctx.gain, ctx.like = part, cache, arrays[1], x
        return torch.as_tensor(y, dtype=x.dtype, device=x.device)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        dx, d_gain, d_shift = ctx.part.backward(grads[0].detach().cpu().numpy(), ctx.gain, ctx.cache)
        like = {"dtype": ctx.like.dtype, "device": ctx.like.device}
        made = [None if a is None else torch.as_tensor(a, **like) for a in (dx, d_gain, d_shift)]
        return (*made, None, None, None, None)


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
