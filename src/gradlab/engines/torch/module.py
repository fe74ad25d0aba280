"""Activations, skips, norms and losses in torch: the built-in ones natively, any other part through its NumPy code.

A part of the user's own runs on the torch engine at once: its forward and backward are wrapped as an autograd function,
on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as nnf
from numpy.typing import NDArray
from torch import Tensor, nn

from gradlab.network.activations import Activation, Identity
from gradlab.network.layout import PROJECTION, TAKEN, Slot
from gradlab.network.losses import Loss
from gradlab.network.mlp import MLP, Layer
from gradlab.network.noises import Draws
from gradlab.network.norms import Norm
from gradlab.network.skips import Skip

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


Pull = Callable[[Any], Sequence[Any]]
"""dL/dy -> dL/d(every input), None where none arrives."""


class _InNumpy(torch.autograd.Function):
    """A function of tensors that a part computes in NumPy.

    `compute` takes the tensors as arrays, and gives y and what pulls dL/dy back to each of them.
    """

    @staticmethod
    def forward(ctx: Any, compute: Callable[..., tuple[Any, Pull]], *given: Tensor) -> Tensor:
        y, ctx.pull = compute(*(tensor.detach().cpu().numpy() for tensor in given))
        ctx.given = given
        return torch.as_tensor(y, dtype=given[0].dtype, device=given[0].device)

    @staticmethod
    def backward(ctx: Any, *dy: Tensor) -> Any:
        return None, *map(_like, ctx.pull(dy[0].detach().cpu().numpy()), ctx.given)


def _like(values: Any, tensor: Tensor) -> Tensor | None:
    """Numbers that NumPy computed as a tensor of the same shape, type and place."""
    if values is None:
        return None
    return torch.as_tensor(values, dtype=tensor.dtype, device=tensor.device).reshape(tensor.shape)


def make_activation(part: Activation) -> Callable[[Tensor], Tensor]:
    """Return f as a function of tensors."""
    if type(part) is Identity:
        return lambda x: x
    if _is_built_in(part) and part.torch_name:
        native, options = getattr(nnf, part.torch_name), {**part.torch_options, **part.parameters()}
        return lambda x: native(x, **options)

    def compute(x: NDArray[Any]) -> tuple[Any, Pull]:
        y = part.forward(x)
        slope = np.asarray(part.slope(x, y), x.dtype)
        return y, lambda dy: [dy * slope]

    return lambda x: _InNumpy.apply(compute, x)


def apply_skip(part: Skip, x: Tensor, branch: Tensor, p: Named) -> Tensor:
    """skip(x, F)."""
    if _is_built_in(part) and part.name in SKIPS:
        return SKIPS[part.name](x, branch, p)
    learned = [name for name, value in p.items() if isinstance(value, Tensor)]

    def compute(x: Any, branch: Any, *tensors: Any) -> tuple[Any, Pull]:
        held = {**p, **dict(zip(learned, tensors, strict=True))}
        y, cache = part.forward(x, branch, held)

        def pull(dy: Any) -> Sequence[Any]:
            along, to_branch, gradients = part.backward(dy, held, cache)
            return along, to_branch, *(gradients[name] for name in learned)

        return y, pull

    return _InNumpy.apply(compute, x, branch, *(p[name] for name in learned))


def apply_norm(part: Norm, x: Tensor, p: Named, running: Any, training: bool) -> tuple[Tensor, Any]:
    """norm(x) and the running statistics after it."""
    if not _is_built_in(part) or part.name not in ("none", "layer", "rms", "batch", "dynamic_tanh"):
        return _apply_in_numpy(part, x, p, running, training)
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


def _apply_in_numpy(part: Norm, x: Tensor, p: Named, running: Any, training: bool) -> tuple[Tensor, Any]:
    after = None

    def compute(x: Any, *tensors: Any) -> tuple[Any, Pull]:
        nonlocal after
        held = dict(zip(p, tensors, strict=True))
        y, cache, after = part.forward(x, held, running, training)

        def pull(dy: Any) -> Sequence[Any]:
            dx, gradients = part.backward(dy, held, cache)
            return dx, *(gradients[name] for name in held)

        return y, pull

    return _InNumpy.apply(compute, x, *p.values()), after


def loss_value(part: Loss, output: Tensor, target: Tensor) -> Tensor:
    """Return L(output, target)."""
    if _is_built_in(part) and part.name == "cross_entropy":
        return nnf.cross_entropy(output, target, label_smoothing=part.label_smoothing)  # type: ignore[attr-defined]
    if _is_built_in(part) and part.name == "mse":
        return nnf.mse_loss(output, target)

    def compute(outputs: NDArray[Any]) -> tuple[Any, Pull]:
        value, gradient = part.value_and_gradient(outputs, target.cpu().numpy())
        gradient = np.asarray(gradient, outputs.dtype)
        return value, lambda dy: [dy * gradient]

    return _InNumpy.apply(compute, output)


# A Gradlab network as a plain `nn.Module`: nn.Linear layers with Gradlab's names, norms and skips.
#
# layer3.weight   (fan_out, fan_in), torch's layout; Gradlab stores (fan_in, fan_out)
# layer3.bias, layer3.gain, block2.alpha, …   and whatever else norms and skips declare


class LabLayer(nn.Linear):
    """z = x W + b, with the norm's own tensors beside it."""

    def __init__(self, layer: Layer, slots: Sequence[Slot], dtype: torch.dtype) -> None:
        bias = any(slot.role == "bias" for slot in slots)
        super().__init__(layer.fan_in, layer.fan_out, bias=bias, dtype=dtype)
        width = layer.units
        self.tensors = tuple(slot.role for slot in slots if slot.role not in TAKEN)
        for slot in slots:
            if slot.role in self.tensors:
                self.register_parameter(slot.role, nn.Parameter(torch.zeros(slot.shape, dtype=dtype)))
        if layer.norm.has_memory:
            self.register_buffer("running_mean", torch.zeros(width, dtype=dtype))
            self.register_buffer("running_variance", torch.ones(width, dtype=dtype))


class LabBlock(nn.Module):
    """The tensors that the skip of a block declares."""

    def __init__(self, slots: Sequence[Slot], dtype: torch.dtype) -> None:
        super().__init__()
        for slot in slots:
            self.register_parameter(slot.role, nn.Parameter(torch.zeros(slot.shape, dtype=dtype)))


class LabModule(nn.Module):
    """Optional stem, blocks, optional head: the equations of `gradlab.network.mlp`, differentiated by autograd."""

    def __init__(self, mlp: MLP, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.mlp = mlp
        owned: dict[str, list[Slot]] = {}
        for slot in mlp.layout.slots:
            owned.setdefault(f"{slot.group}{slot.owner}", []).append(slot)
        self._functions = {layer.number: make_activation(layer.activation) for layer in mlp.layers}
        for layer in mlp.layers:
            self.add_module(f"layer{layer.number}", LabLayer(layer, owned[f"layer{layer.number}"], dtype))
        for name, slots in owned.items():
            if slots[0].group == "block":
                self.add_module(name, LabBlock(slots, dtype))

    def _get_layer(self, layer: Layer) -> LabLayer:
        found = self.get_submodule(f"layer{layer.number}")
        assert isinstance(found, LabLayer)
        return found

    def _normalize(self, layer: Layer, x: Tensor) -> Tensor:
        own = self._get_layer(layer)
        running = (own.running_mean, own.running_variance) if layer.norm.has_memory else None
        p = {name: own.get_parameter(name) for name in own.tensors}
        y, after = apply_norm(layer.norm, x, p, running, self.training)
        if layer.norm.has_memory and self.training:
            with torch.no_grad():
                own.running_mean.copy_(torch.as_tensor(after[0]))
                own.running_variance.copy_(torch.as_tensor(after[1]))
        return y

    def forward(self, x: Tensor, draws: Draws | None = None) -> Tensor:
        """Output of shape (n, output width); without draws there is no noise."""
        mlp, h = self.mlp, self._add_noise("input", 0, x, draws)
        if mlp.stem is not None:
            h = self._functions[mlp.stem.number](self._normalize(mlp.stem, self._get_layer(mlp.stem)(h)))
            h = self._add_noise("hidden", 1, h, draws)
        for index, block in enumerate(mlp.blocks):
            learned = getattr(self, f"block{index + 1}", None)
            p = {**mlp.constants_of(index), **({} if learned is None else dict(learned.named_parameters()))}
            changes_width = block[0].fan_in != block[-1].fan_out and PROJECTION in p
            entry = h @ p.pop(PROJECTION) if changes_width else h
            for layer in block:
                f, own = self._functions[layer.number], self._get_layer(layer)
                if mlp.skip.place == "before":
                    h = own(self._add_noise("hidden", layer.number, f(self._normalize(layer, h)), draws))
                    continue
                z = self._normalize(layer, own(h))
                if layer is block[-1] and mlp.skip.place == "inside":
                    z = apply_skip(mlp.skip, entry, self._add_noise("branch", index + 1, z, draws), p)
                h = self._add_noise("hidden", layer.number, f(z), draws)
            if mlp.skip.place != "inside":
                h = self._add_noise("branch", index + 1, h, draws)
                h = apply_skip(mlp.skip, entry, h, p)
        if mlp.head is None:
            return h
        z = self._get_layer(mlp.head)(h)
        return self._functions[mlp.head.number](z if mlp.output_scale == 1.0 else mlp.output_scale * z)

    def _add_noise(self, place: str, number: int, x: Tensor, draws: Draws | None) -> Tensor:
        """a ⊙ x + b with Gradlab's draws, in training."""
        noise = dict(self.mlp.noises).get(place)
        if noise is None or draws is None or not self.training or not self.mlp.has_noise(place, number):
            return x
        dtype = np.float32 if x.dtype == torch.float32 else np.float64
        both = draws.affine(noise, place, number, self.mlp.along(place, number), *x.shape, dtype)  # type: ignore[call-arg]
        scale, shift = (torch.from_numpy(values).to(x.device) for values in both)
        return scale * x + shift

    # ------------------------------------------------------------------ Gradlab's parameters, in and out

    def slot(self, slot: Slot) -> Tensor:
        """The parameter of a slot, torch's layout."""
        return self.get_parameter(slot.name)

    def load_flat(self, theta: NDArray[Any]) -> None:
        """Load Gradlab's flat parameters."""
        with torch.no_grad():
            for slot in self.mlp.layout.slots:
                values = torch.from_numpy(np.array(slot.view(theta)))
                self.slot(slot).copy_(values.T if _is_weight(slot) else values)

    def to_flat(self, values: str = "data") -> NDArray[Any]:
        """Return Gradlab's flat parameters; with `grad`, their gradients."""
        found = []
        for slot in self.mlp.layout.slots:
            parameter = self.slot(slot)
            tensor = parameter.detach() if values == "data" else parameter.grad
            tensor = torch.zeros_like(parameter) if tensor is None else tensor
            found.append((tensor.T if _is_weight(slot) else tensor).cpu().numpy().ravel())
        return np.concatenate(found)

    def running(self) -> list[Any]:
        """Return the norms' running statistics, layer by layer, in Gradlab's format."""
        found: list[Any] = []
        for layer in self.mlp.layers:
            own = self._get_layer(layer)
            if layer.norm.has_memory:
                both = (own.running_mean, own.running_variance)
                found.append(tuple(each.cpu().numpy().copy() for each in both))
            else:
                found.append(None)
        return found

    def load_lab(self, weights: Mapping[str, Any]) -> None:
        """Load parameters by Gradlab's names, as `Result.weights` or a run's safetensors file provides them."""
        with torch.no_grad():
            for slot in self.mlp.layout.slots:
                values = torch.from_numpy(np.array(weights[slot.name]))
                self.slot(slot).copy_(values.T if _is_weight(slot) else values.reshape(self.slot(slot).shape))

    def lab_weights(self) -> dict[str, NDArray[Any]]:
        """Return parameters by Gradlab's names and in Gradlab's layout, ready for safetensors."""
        flat = self.to_flat()
        return {slot.name: np.array(slot.view(flat)) for slot in self.mlp.layout.slots}


def _is_weight(slot: Slot) -> bool:
    """Whether torch keeps it the other way round: the matrix of a layer (a skip's own matrices stay as they are)."""
    return slot.group == "layer" and slot.role == "weight"
