"""A Gradlab network as a plain `nn.Module`: nn.Linear layers with Gradlab's names, norms and skips.

layer3.weight   (fan_out, fan_in), torch's layout; Gradlab stores (fan_in, fan_out)
layer3.bias, layer3.gain, block2.alpha, …   and whatever else norms and skips declare
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import torch
from gradlab.engines.torch.functions import apply_norm, apply_skip, make_activation
from gradlab.network.layout import Slot
from gradlab.network.mlp import MLP, PROJECTION, Layer
from gradlab.network.tensors import TAKEN
from torch import Tensor, nn


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

    def forward(self, x: Tensor) -> Tensor:
        """Output of shape (n, output width)."""
        mlp, h = self.mlp, x
        if mlp.stem is not None:
            h = self._functions[mlp.stem.number](self._normalize(mlp.stem, self._get_layer(mlp.stem)(h)))
        for index, block in enumerate(mlp.blocks):
            learned = getattr(self, f"block{index + 1}", None)
            p = {**mlp.constants_of(index), **({} if learned is None else dict(learned.named_parameters()))}
            changes_width = block[0].fan_in != block[-1].fan_out and PROJECTION in p
            entry = h @ p.pop(PROJECTION) if changes_width else h
            for layer in block:
                f, own = self._functions[layer.number], self._get_layer(layer)
                if mlp.skip.place == "before":
                    h = own(f(self._normalize(layer, h)))
                    continue
                z = self._normalize(layer, own(h))
                if layer is block[-1] and mlp.skip.place == "inside":
                    z = apply_skip(mlp.skip, entry, z, p)
                h = f(z)
            if mlp.skip.place != "inside":
                h = apply_skip(mlp.skip, entry, h, p)
        return h if mlp.head is None else self._functions[mlp.head.number](self._get_layer(mlp.head)(h))

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
