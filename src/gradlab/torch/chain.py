"""A user's network as a chain of matrices, norms, functions and skips, read from its graph; refused if it is not one.

`torch.fx` follows the forward pass without running it, so `x + f(self.linear(x))` is seen as well as modules are.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from torch.fx import GraphModule, Node, symbolic_trace
from torch.nn import functional

import torch
from gradlab.errors import InvalidInput, described
from gradlab.network.activations.base import Activation
from gradlab.network.activations.gelu import Gelu
from gradlab.network.activations.gelu_tanh import GeluTanh
from gradlab.network.activations.leaky_relu import LeakyRelu
from gradlab.network.activations.relu import Relu
from gradlab.network.activations.sigmoid import Sigmoid
from gradlab.network.activations.silu import Silu
from gradlab.network.activations.tanh import Tanh
from torch import nn

BY_NAME: dict[str, type[Activation]] = {
    "relu": Relu,
    "relu_": Relu,
    "tanh": Tanh,
    "tanh_": Tanh,
    "sigmoid": Sigmoid,
    "sigmoid_": Sigmoid,
}
BY_FUNCTION: dict[Any, type[Activation]] = {
    torch.relu: Relu, functional.relu: Relu, torch.tanh: Tanh, functional.tanh: Tanh,
    torch.sigmoid: Sigmoid, functional.sigmoid: Sigmoid, functional.silu: Silu,
}  # fmt: skip
BY_MODULE: dict[type[nn.Module], type[Activation]] = {nn.ReLU: Relu, nn.Tanh: Tanh, nn.Sigmoid: Sigmoid, nn.SiLU: Silu}
ADDS = (operator.add, operator.iadd, torch.add)
IDLE = (nn.Identity, nn.Flatten)


@dataclass(frozen=True)
class Step:
    """One thing that the signal passes: a matrix, a norm or a function."""

    name: str
    what: nn.Module | Activation


@dataclass(frozen=True)
class Chain:
    """What the signal passes before, inside and behind the residual blocks; all of it before, if there are none."""

    before: tuple[Step, ...]
    blocks: tuple[tuple[Step, ...], ...] = ()
    behind: tuple[Step, ...] = ()


def refuse(reason: str) -> InvalidInput:
    """The error that says why a network has no prediction."""
    return InvalidInput(f"predict: theory does not cover this network: {reason}")


def read_chain(model: nn.Module) -> Chain:
    """Follow the forward pass from the input to the output."""
    try:
        traced = symbolic_trace(model)
    except Exception as error:  # a forward pass of the user's may do anything
        why = (described(error).splitlines() or [""])[0]
        raise refuse(f"its forward pass cannot be followed without running it ({why})") from None
    nodes = [node for node in traced.graph.nodes if node.op != "output" and (node.users or node.op != "placeholder")]
    inputs = [node for node in nodes if node.op == "placeholder"]
    if len(inputs) != 1:
        raise refuse(f"it has {len(inputs)} inputs, and the theory is of one")
    steps: list[Step] = []
    places = {inputs[0]: 0}  # node -> how many steps the signal has passed there
    spans: list[tuple[int, int]] = []
    tip = inputs[0]
    for node in nodes[1:]:
        given = [each for each in node.all_input_nodes if each in places]
        if len(given) != len(node.all_input_nodes) or tip not in given:
            raise refuse(f"{_called(node)} is not the next link of a chain: the signal takes several ways")
        if node.op == "call_function" and node.target in ADDS:
            if len(given) != 2 or node.kwargs.get("alpha", 1) != 1:
                raise refuse(f"{_called(node)} adds something else than the input of its block")
            start = min(places[each] for each in given)
            if start < (spans[-1][1] if spans else 0) or start == len(steps):
                raise refuse("its skips overlap or lead around nothing; the theory is of one block behind the other")
            spans.append((start, len(steps)))
        elif len(given) != 1:
            raise refuse(f"{_called(node)} combines two signals; the theory knows sums only")
        elif (found := _read(node, traced)) is not None:
            steps.append(found)
        places[node], tip = len(steps), node
    return _cut(steps, spans)


def _cut(steps: Sequence[Step], spans: Sequence[tuple[int, int]]) -> Chain:
    if not spans:
        return Chain(tuple(steps))
    for (_, end), (start, _) in pairwise(spans):
        if end != start:
            between = steps[end]
            raise refuse(f"{between.name} stands between two residual blocks, outside of both")
    blocks = tuple(tuple(steps[start:end]) for start, end in spans)
    return Chain(tuple(steps[: spans[0][0]]), blocks, tuple(steps[spans[-1][1] :]))


def _read(node: Node, traced: GraphModule) -> Step | None:
    """A matrix, a norm or a function; None of what hands the signal on."""
    if node.op == "call_module":
        module = traced.get_submodule(str(node.target))
        return _read_module(str(node.target), module)
    made: Activation | None = None
    if node.op == "call_function" and node.target is functional.gelu:
        made = GeluTanh() if node.kwargs.get("approximate") == "tanh" else Gelu()
    elif node.op == "call_function" and node.target is functional.leaky_relu:
        slope = node.args[1] if len(node.args) > 1 else node.kwargs.get("negative_slope", 0.01)
        made = LeakyRelu(negative_slope=slope)
    elif node.op == "call_function" and node.target in BY_FUNCTION:
        made = BY_FUNCTION[node.target]()
    elif node.op == "call_method" and node.target in BY_NAME:
        made = BY_NAME[str(node.target)]()
    if made is None:
        raise refuse(f"{_called(node)} is neither a linear layer nor a norm nor an activation that it knows")
    return Step(node.name, made)


def _read_module(name: str, module: nn.Module) -> Step | None:
    if isinstance(module, IDLE) or (isinstance(module, nn.Dropout) and (module.p == 0 or not module.training)):
        return None
    if isinstance(module, nn.Dropout):
        raise refuse(f"{name} drops units at random; call model.eval() for the network without it")
    if isinstance(module, nn.BatchNorm1d):
        raise refuse(f"{name}: batch norm mixes the samples of a batch")
    if type(module) in (nn.Linear, nn.LayerNorm, nn.RMSNorm):
        return Step(name, module)
    if isinstance(module, nn.GELU):
        return Step(name, GeluTanh() if module.approximate == "tanh" else Gelu())
    if isinstance(module, nn.LeakyReLU):
        return Step(name, LeakyRelu(negative_slope=module.negative_slope))
    if type(module) in BY_MODULE:
        return Step(name, BY_MODULE[type(module)]())
    raise refuse(f"{name} is a {type(module).__name__}, and the theory is of linear layers, norms and activations")


def _called(node: Node) -> str:
    return str(node.target) if node.op in ("call_module", "get_attr") else f"the operation {node.name!r}"
