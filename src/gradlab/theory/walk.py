"""A network on its way forward: every layer and block with its signal, or why the theory does not cover it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.network.inits import Init
from gradlab.network.mlp import MLP
from gradlab.network.skips import (
    AddThenActivate,
    GatedSkip,
    Highway,
    IdentitySkip,
    NoSkip,
    PreActivation,
    ReZero,
    ScaledSkip,
)
from gradlab.parts import Catalog
from gradlab.spec.choice import InitChoice
from gradlab.theory.inputs import Inputs
from gradlab.theory.signal import (
    Deviation,
    Passed,
    Signal,
    Spread,
    Sum,
    Weights,
    add_branch,
    add_gaussian_branch,
    covers_norm,
    no_spread,
    pass_activated_first,
    pass_layer,
    project,
    projection_gain,
    relative,
    weights_of,
)

Array = NDArray[Any]


@dataclass(frozen=True)
class PassedBlock:
    """One block on the way forward."""

    layers: tuple[Passed, ...]
    stream: Signal
    """What enters the sum along the skip."""
    out: Signal
    alpha: float | None
    """What multiplies the branch; None without a skip."""
    projection: float | None
    """n_in Var of the matrix in the skip, where the width changes."""
    gain: float = 1.0
    """d ln p'/d ln p along the block."""
    noise: Array | float = 0.0
    """What the block adds to the spread of p'."""


@dataclass(frozen=True)
class Walk:
    """The whole network."""

    entry: Signal
    stem: Passed | None
    blocks: tuple[PassedBlock, ...]
    head: Passed | None

    @property
    def layers(self) -> tuple[Passed, ...]:
        """In forward order."""
        inner = [layer for block in self.blocks for layer in block.layers]
        return tuple(layer for layer in (self.stem, *inner, self.head) if layer is not None)

    @property
    def top(self) -> Signal:
        """What the head multiplies, or what the loss sees if there is none."""
        if self.blocks:
            return self.blocks[-1].out
        return self.stem.out if self.stem is not None else self.entry


def weights_by_layer(mlp: MLP, choice: InitChoice, catalog: Catalog) -> list[Weights]:
    """The initial distribution of every matrix."""
    init: Init = choice.build(catalog)
    return [weights_of(layer, mlp, choice, init) for layer in mlp.layers]


def branch_factor(mlp: MLP, block: int) -> float | None:
    """α in x + α F of a block (from 0); None without a skip."""
    skip = mlp.skip
    if isinstance(skip, NoSkip):
        return None
    if isinstance(skip, ScaledSkip):
        return mlp.constants_of(block)["alpha"]
    return skip.start if isinstance(skip, ReZero | GatedSkip) else 1.0


def why_not_forward(mlp: MLP, weights: list[Weights]) -> str | None:
    """Why the theory does not cover the signal of a network; None if it does."""
    skip = mlp.skip
    if isinstance(skip, AddThenActivate):
        return "the density of a stream that is activated is not Gaussian, and its theory is not derived"
    if isinstance(skip, Highway):
        return "the gate of a Highway skip depends on the signal"
    if type(skip) not in (NoSkip, IdentitySkip, ScaledSkip, ReZero, GatedSkip, PreActivation):
        return f"the skip {skip.name!r} has no theory"
    for layer in mlp.layers:
        if not covers_norm(layer):
            return (
                "batch norm mixes the samples of a batch; its theory is the limit of large batches"
                if layer.norm.name == "batch"
                else f"the norm {layer.norm.name!r} has no theory"
            )
    if not all(own.is_centered for own in weights):
        return "the init's weights do not have mean 0"
    if isinstance(skip, PreActivation) and _bends_first(mlp):
        return "the stream of a pre-activation network is Gaussian only behind a stem without activation"
    return None


def _bends_first(mlp: MLP) -> bool:
    """Whether what enters the first block is not Gaussian."""
    from gradlab.network.activations import Identity

    return mlp.stem is None or not (isinstance(mlp.stem.activation, Identity) and mlp.stem.norm.name == "none")


def walk(mlp: MLP, weights: list[Weights], inputs: Inputs) -> Walk:
    """Carry the inputs' moments through the network."""
    spread = no_spread(inputs, inputs.spread)
    entry = _enter(inputs, spread, mlp.stem is None)
    h, stem = entry, None
    if mlp.stem is not None:
        stem = pass_layer(mlp.stem, weights[0], h)
        first = isinstance(mlp.skip, PreActivation)
        h = replace(stem.out, is_gaussian=first)
    blocks = []
    for index, block in enumerate(mlp.blocks):
        alpha = branch_factor(mlp, index)
        stream, gain = h, None
        before, after = block[0].fan_in, block[-1].fan_out
        if alpha is not None and before != after:
            gain = projection_gain(mlp, before, after)
            stream = project(h, gain, after)
        passed: list[Passed] = []
        x = h
        for layer in block:
            through = pass_activated_first if layer.activates_first else pass_layer
            passed.append(through(layer, weights[layer.number - 1], x))
            x = passed[-1].out
        if alpha is None:
            total = Sum(x, 1.0, np.zeros_like(x.second))
        elif isinstance(mlp.skip, PreActivation):
            total = add_gaussian_branch(stream, passed[-1])
        else:
            total = add_branch(stream, passed[-1], alpha)
        h = total.out
        blocks.append(PassedBlock(tuple(passed), stream, h, alpha, gain, total.gain, total.noise))
    head = None
    if mlp.head is not None:
        head = pass_layer(mlp.head, weights[-1], h)
    return Walk(entry, stem, tuple(blocks), head)


def _enter(inputs: Inputs, spread: Spread, carries_input: bool) -> Signal:
    """The task's samples as a signal."""
    squares = inputs.x**2
    p = inputs.second.diagonal()
    fourth = relative(squares @ squares.T / inputs.x.shape[1], p)
    mean = inputs.x.mean(1)

    def about_mean() -> Deviation:
        middle = float(mean.mean())
        return Deviation(p - 2 * middle * mean + middle**2, spread, spread.covariance)

    width = inputs.x.shape[1]
    return Signal(mean, inputs.second, width, spread, carries_input=carries_input, fourth=fourth, about_mean=about_mean)


def is_finite(found: Walk) -> bool:
    """Whether no second moment overflowed."""
    return all(bool(np.isfinite(layer.out.p)) for layer in found.layers)
