"""A chain of a user's modules as the network that the theory walks through."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from gradlab.network.activations.base import Activation
from gradlab.network.activations.identity import Identity
from gradlab.network.layout import Layout
from gradlab.network.mlp import MLP, Layer
from gradlab.network.norms.base import Norm
from gradlab.network.norms.layer import LayerNorm
from gradlab.network.norms.none import NoNorm
from gradlab.network.norms.rms import RmsNorm
from gradlab.network.skips.identity import IdentitySkip
from gradlab.network.skips.none import NoSkip
from gradlab.network.skips.pre_activation import PreActivation
from gradlab.theory.weights import Weights
from gradlab.torch.chain import Chain, Step, refuse
from torch import nn


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
    found: list[Layer] = []
    starts = [place for place, step in enumerate(steps) if isinstance(step.what, nn.Linear)]
    if not starts or (starts[0] != 0 and not first) or (first and starts[-1] != len(steps) - 1):
        raise refuse(f"{steps[0].name} does not belong to a linear layer before it")
    edges = [0, *(place + 1 for place in starts)] if first else [*starts, len(steps)]
    for start, end in pairwise(edges):
        own = list(steps[start:end])
        step = own.pop(-1 if first else 0)
        assert isinstance(step.what, nn.Linear)
        norm, function = _norm_and_function(own)
        linears.append((step.name, step.what))
        size = (step.what.in_features, step.what.out_features)
        found.append(Layer(len(linears), *size, function, norm, in_block, first))
    return found


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
