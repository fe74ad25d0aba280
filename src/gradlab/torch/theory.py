"""A user's network as a chain of matrices, norms, functions and skips, read from its graph; refused if it is not one.

`torch.fx` follows the forward pass without running it, so `x + f(self.linear(x))` is seen as well as modules are.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Node, symbolic_trace
from torch.nn import functional

from gradlab.analysis.theory import within
from gradlab.errors import InvalidInput, described
from gradlab.network.activations import TORCH_NAMES, Activation, Identity, find_torch_activation
from gradlab.network.layout import Layout
from gradlab.network.losses import Array, Loss
from gradlab.network.mlp import MLP, Layer
from gradlab.network.norms import LayerNorm, NoNorm, Norm, RmsNorm
from gradlab.network.skips import IdentitySkip, NoSkip, PreActivation
from gradlab.tell.predictions import tell
from gradlab.theory.inputs import represent
from gradlab.theory.predicting import predict_mlp
from gradlab.theory.prediction import Forecast, Prediction
from gradlab.theory.signal import Weights, why_not_forward
from gradlab.torch.structure import unwrap_model
from gradlab.torch.views import find_layers

if TYPE_CHECKING:
    import pandas as pd

    from gradlab.torch.probe import ModuleProbe


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
        elif (step := _read(node, traced)) is not None:
            steps.append(step)
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
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    made: Activation | None = None
    if node.op == "call_method" or node.target in (getattr(torch, name, None), getattr(functional, name, None)):
        made = find_torch_activation(name.removesuffix("_"), node.kwargs, node.args[1:])
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
    kind = type(module).__name__
    if type(module) is getattr(nn, kind, None):
        function = next((one for one in TORCH_NAMES if one.replace("_", "") == kind.lower()), "")
        if (made := find_torch_activation(function, vars(module))) is not None:
            return Step(name, made)
    raise refuse(f"{name} is a {kind}, and the theory is of linear layers, norms and activations")


def _called(node: Node) -> str:
    return str(node.target) if node.op in ("call_module", "get_attr") else f"the operation {node.name!r}"


# A chain of a user's modules as the network that the theory walks through.


def measure_weights(linear: nn.Linear) -> Weights:
    """Variance of a matrix and its bias as they are now."""
    w = linear.weight.detach().double()
    second = float((w * w).mean())
    centered = abs(float(w.mean())) <= 5 * (second / w.numel()) ** 0.5
    bias = 0.0 if linear.bias is None else float((linear.bias.detach().double() ** 2).mean())
    narrow = w if w.shape[0] <= w.shape[1] else w.T
    product = narrow @ narrow.T / (second * narrow.shape[1]) if second > 0 else None
    orthogonal = product is not None and bool(torch.allclose(product, torch.eye(len(narrow)).to(product), atol=1e-3))
    return Weights(
        linear.in_features * second,
        bias,
        is_centered=centered,
        excess=float((w**4).mean()) / second**2 - 3 if second > 0 and not orthogonal else 0.0,
        keeps_signal=orthogonal and linear.in_features <= linear.out_features,
        keeps_delta=orthogonal and linear.in_features >= linear.out_features,
    )


def build_mlp(chain: Chain) -> tuple[MLP, list[tuple[str, nn.Linear]]]:
    """The network that the theory walks through, and its matrices in the same order."""
    linears: list[tuple[str, nn.Linear]] = []
    if not chain.blocks:
        layers = _layers(chain.before, linears, in_block=False)
        if not layers:
            raise refuse("it has no linear layer")
        if not isinstance(layers[-1].norm, NoNorm):
            raise refuse("a norm stands behind its last linear layer")
        stem, inner, head = (layers[0], layers[1:-1], layers[-1]) if len(layers) > 1 else (None, [], layers[0])
        blocks = tuple((layer,) for layer in inner)
        return MLP(stem, blocks, head, NoSkip(), len(layers) - 1, Layout(())), linears
    before = _layers(chain.before, linears, in_block=False)
    if len(before) > 1:
        raise refuse(f"{len(before)} linear layers stand before its first residual block; the theory is of one")
    made = tuple(tuple(_layers(steps, linears, in_block=True)) for steps in chain.blocks)
    firsts = {layer.activates_first for block in made for layer in block}
    if not all(made) or len(firsts) > 1:
        raise refuse("its residual blocks are of different kinds, or one has no linear layer")
    behind = _layers(chain.behind, linears, in_block=False)
    if len(behind) > 1 or any(layer.activates_first or not isinstance(layer.norm, NoNorm) for layer in behind):
        raise refuse("behind its last residual block stands more than one linear layer")
    skip = PreActivation() if firsts == {True} else IdentitySkip()
    if any(block[0].fan_in != block[-1].fan_out for block in made):
        raise refuse("a residual block changes the width")
    depth = len(before) + sum(len(block) for block in made)
    return MLP(before[0] if before else None, made, behind[0] if behind else None, skip, depth, Layout(())), linears


def _layers(steps: Sequence[Step], linears: list[tuple[str, nn.Linear]], *, in_block: bool) -> list[Layer]:
    """W, norm, f in this order; or norm, f, W, where a residual block begins so."""
    if not steps:
        return []
    first = in_block and not isinstance(steps[0].what, nn.Linear)
    layers: list[Layer] = []
    starts = [place for place, step in enumerate(steps) if isinstance(step.what, nn.Linear)]
    if not starts or (starts[0] != 0 and not first) or (first and starts[-1] != len(steps) - 1):
        raise refuse(f"{steps[0].name} does not belong to a linear layer before it")
    edges = [0, *(place + 1 for place in starts)] if first else [*starts, len(steps)]
    for start, end in pairwise(edges):
        members = list(steps[start:end])
        step = members.pop(-1 if first else 0)
        assert isinstance(step.what, nn.Linear)
        norm, function = _norm_and_function(members)
        linears.append((step.name, step.what))
        size = (step.what.in_features, step.what.out_features)
        layers.append(Layer(len(linears), *size, function, norm, in_block, first))
    return layers


def _norm_and_function(steps: list[Step]) -> tuple[Norm, Activation]:
    norm: Norm = NoNorm()
    if steps and isinstance(steps[0].what, nn.LayerNorm | nn.RMSNorm):
        norm = _read_norm(steps.pop(0))
    function: Activation = Identity()
    if steps and isinstance(steps[0].what, Activation):
        function = steps.pop(0).what
    if steps:
        raise refuse(f"{steps[0].name} stands where a linear layer, or the norm and the function behind it, should")
    return norm, function


def _read_norm(step: Step) -> Norm:
    module = step.what
    assert isinstance(module, nn.LayerNorm | nn.RMSNorm)
    weight, bias = module.weight, getattr(module, "bias", None)
    if (weight is not None and bool((weight != 1).any())) or (bias is not None and bool((bias != 0).any())):
        raise refuse(f"{step.name} has learned scales or shifts, and the theory is of a norm as it starts")
    if len(module.normalized_shape) != 1:
        raise refuse(f"{step.name} normalizes over several axes")
    epsilon = module.eps if module.eps is not None else float(torch.finfo(torch.float32).eps)
    kind = LayerNorm if isinstance(module, nn.LayerNorm) else RmsNorm
    return kind(epsilon=epsilon)


# What theory expects of a user's own network: a plain or residual MLP in PyTorch, read from its graph.
#
# The variance of every matrix is measured, so any init is known. What the theory does not cover is refused with the
# reason: the network of a user cannot be drawn again, so nothing can be simulated in its place.

LossFunction = Callable[[Tensor, Tensor], Tensor]


class LossOfTorch(Loss):
    """A loss function of the user's; one that sums over the batch is told from one that averages."""

    name = "loss_of_torch"
    targets = "values"

    def __init__(self, function: LossFunction, outputs: Tensor, y: Tensor) -> None:
        once, twice = (float(function(torch.cat([outputs] * n), torch.cat([y] * n))) for n in (1, 2))
        if abs(twice - once) > 1e-3 * abs(once) and abs(twice - 2 * once) > 1e-3 * abs(once):
            raise refuse("its loss is neither a mean nor a sum over the samples of the batch")
        summed = abs(twice - 2 * once) < abs(twice - once)
        for key, value in (("function", function), ("like", y), ("factor", float(len(y)) if summed else 1.0)):
            object.__setattr__(self, key, value)

    def value(self, output: Array, target: Array) -> float:
        """Of the whole batch for which these samples stand."""
        return self.value_and_gradient(output, target)[0]

    def value_and_gradient(self, output: Array, target: Array) -> tuple[float, Array]:
        """By autograd."""
        z = torch.from_numpy(np.ascontiguousarray(output)).requires_grad_()
        y = torch.from_numpy(np.ascontiguousarray(target)).to(self.like.dtype)  # type: ignore[attr-defined]
        loss = self.function(z, y.double() if y.is_floating_point() else y)  # type: ignore[attr-defined]
        (gradient,) = torch.autograd.grad(loss, z)
        factor = self.factor if self.factor == 1.0 else self.factor / len(output)  # type: ignore[attr-defined]
        return float(loss.detach()) * factor, gradient.numpy() * factor


@dataclass(frozen=True)
class PredictedModule:
    """What theory expects of a network before training, layer by layer; layers have the names of their modules."""

    prediction: Prediction
    layers: tuple[str, ...]
    hidden: frozenset[str]
    """Layers whose own output is not what enters a function: a norm follows, or the function comes first."""

    @property
    def sentences(self) -> list[str]:
        """What theory says, in words."""
        return tell(self.prediction)

    def frame(self) -> pd.DataFrame:
        """Every forecast: layer, measure, center, low, high, kind; measures are named as in a probe's layers."""
        import pandas as pd

        rows = [(layer, measure, one.center, one.low, one.high, one.kind) for layer, measure, one in self._forecasts()]
        return pd.DataFrame(rows, columns=["layer", "measure", "center", "low", "high", "kind"])

    def beside(self, probe: ModuleProbe) -> pd.DataFrame:
        """Forecasts beside what a probe has measured.

        `inside`: whether it lies in the band of 95 % of seeds; of an order of magnitude, within a factor 2 of it.
        """
        import pandas as pd

        measured = {layer.name: layer.measures for layer in find_layers(probe)}
        if not measured.keys() >= set(self.layers):
            raise InvalidInput("beside: the probe has measured another network, or no pass of this one")
        rows = [
            (layer, measure, value, one.center, one.low, one.high, one.kind, within(one, value))
            for layer, measure, one in self._forecasts()
            if (value := measured[layer].get(measure)) is not None
        ]
        return pd.DataFrame(rows, columns=["layer", "measure", "measured", "center", "low", "high", "kind", "inside"])

    def _forecasts(self) -> Iterator[tuple[str, str, Forecast]]:
        for measure, by in self.prediction.forecasts.items():
            for number, one in sorted(by.items()):
                if not (measure.endswith(".pre") and self.layers[number - 1] in self.hidden):
                    yield self.layers[number - 1], measure, one

    def __repr__(self) -> str:
        return "\n".join(self.sentences)


def predict(
    model: nn.Module, x: Tensor, y: Tensor | None = None, *, loss: LossFunction | None = None
) -> PredictedModule:
    """Say what theory expects of a plain or residual MLP on a batch: the signal and, with targets and loss, δ.

    >>> found = gradlab.torch.predict(model, x, y, loss=nn.functional.cross_entropy)
    >>> found.sentences, found.frame()
    >>> with gradlab.probe(model) as p: loss(model(x), y).backward()
    >>> found.beside(p)

    Nothing is trained, and the model is not modified. A network that theory does not cover is refused with the reason.
    """
    inner = unwrap_model(model)
    if (y is None) != (loss is None):
        raise InvalidInput("predict: give both targets and loss, or neither")
    if not isinstance(x, Tensor) or x.ndim < 2 or not x.is_floating_point():
        raise InvalidInput("predict: x has to be a batch of inputs, (samples, features), in floating point")
    if y is not None and len(y) != len(x):
        raise InvalidInput(f"predict: {len(x)} inputs, but {len(y)} targets")
    mlp, linears = build_mlp(read_chain(inner))
    weights = [measure_weights(linear) for _, linear in linears]
    if (reason := why_not_forward(mlp, weights)) is not None:
        raise refuse(reason)
    flat = x.detach().flatten(1).double().cpu()
    if flat.shape[1] != linears[0][1].in_features:
        raise InvalidInput(
            f"predict: x has {flat.shape[1]} features, {linears[0][0]} takes {linears[0][1].in_features}"
        )
    criterion = None
    if loss is not None and y is not None:
        criterion = LossOfTorch(loss, torch.zeros(len(x), mlp.layers[-1].fan_out).double(), _widened(y))
    targets = np.zeros(len(x)) if y is None else _widened(y).numpy()
    prediction = predict_mlp(mlp, weights, represent(flat.numpy(), targets, len(x), 0.0, 0.0), criterion)
    names = tuple(name for name, _ in linears)
    hidden = {names[one.number - 1] for one in mlp.layers if one.activates_first or not isinstance(one.norm, NoNorm)}
    return PredictedModule(prediction, names, frozenset(hidden))


def _widened(y: Tensor) -> Tensor:
    return y.detach().cpu().double() if y.is_floating_point() else y.detach().cpu()
