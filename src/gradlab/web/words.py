"""What happens in a network right now, in words: learning, stuck, vanishing, exploding, dying, diverged and why."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from gradlab.audits.start import Gain, gain_of
from gradlab.spec.config import Config
from gradlab.spec.numerals import counted, written
from gradlab.trials.setup import Setup
from gradlab.web.layers import Layers
from gradlab.web.pair import ArmState

State = Literal["ready", "learning", "stuck", "vanishing", "exploding", "dying", "diverged"]
FAR = 100.0
"""A size that changes by this factor over all layers has vanished or exploded."""
DYING = 0.5
"""Share of dead units from which on they are worth a sentence."""
LATELY, SAME = 20, 0.97
"""Steps over which a loss is averaged, and the share of the first loss above which nothing was learned."""


@dataclass(frozen=True)
class Told:
    """The state of one network, and one or two sentences."""

    state: State
    words: str


def tell(config: Config, state: ArmState, layers: Layers, guessing: float) -> Told:
    """What is to be said of a network after a step; `guessing` is the loss of one answer for all samples."""
    if state.diverged_step is not None:
        return Told("diverged", _tell_divergence(config, state, layers))
    hidden = slice(0, len(layers.delta) - (config.model.head == "linear"))
    learned, course = _has_learned(state, guessing), _tell_course(state, guessing)
    dead = _tell_dead(layers.dead[hidden])
    if dead is not None and (learned or max(layers.dead[hidden]) == 1):
        return Told("dying", f"{course}{dead}")
    if not learned and (told := _tell_flow(layers, hidden)) is not None:
        return Told(told.state, f"{course}{told.words}")
    if dead is not None:
        return Told("dying", f"{course}{dead}")
    if not len(state.losses):
        return Told("ready", "Neither the signal nor δ vanishes or explodes over the layers.")
    return Told("learning" if learned else "stuck", course.strip())


def recent_loss(state: ArmState) -> float | None:
    """The mean loss of the last steps; None before the first step."""
    return float(np.mean(state.losses[-LATELY:])) if len(state.losses) else None


def guessing_loss(setup: Setup) -> float:
    """The loss of the best constant answer on the training samples: guessing among classes, or their mean."""
    data = setup.dataset
    if data.classes is not None:
        return math.log(data.classes)
    targets = data.typed(data.targets[data.train], np.float64)
    return float(setup.loss.value(np.broadcast_to(targets.mean(0), targets.shape), targets))


def _has_learned(state: ArmState, guessing: float) -> bool:
    """Whether the loss is clearly below the first one, and below that of guessing."""
    now = recent_loss(state)
    return now is not None and now < SAME * min(float(state.losses[0]), guessing)


def _tell_course(state: ArmState, guessing: float) -> str:
    """Where the loss came from and where it is, with a space behind; empty before the first step."""
    now = recent_loss(state)
    if now is None:
        return ""
    first = float(state.losses[0])
    if now < SAME * first:
        than = (
            ""
            if now < SAME * guessing
            else ", the loss of guessing"
            if now < guessing / SAME
            else ", worse than guessing"
        )
        return f"The loss fell from {written(first)} to {written(now)}{than}. "
    return f"The loss {'stays at' if now < first / SAME else f'rose from {written(first)} to'} {written(now)}. "


def _tell_flow(layers: Layers, hidden: slice) -> Told | None:
    """The first of δ and signal that vanishes or explodes over the layers."""
    delta, signal = gain_of(layers.delta[hidden][::-1]), gain_of(layers.signal[hidden])
    flows = (("The backprop signal δ", delta, "back to the first layer"), ("The signal", signal, "to the last layer"))
    for name, gain, way in flows:
        if gain is not None and gain.in_all < 1 / FAR:
            return Told("vanishing", _tell_gain(name, gain, way))
    for name, gain, way in reversed(flows):
        if gain is not None and gain.in_all > FAR:
            return Told("exploding", _tell_gain(name, gain, way))
    return None


def _tell_dead(dead: list[float]) -> str | None:
    """Which units are dead, where that matters: a whole layer, or most of all."""
    whole = [number for number, share in enumerate(dead, 1) if share == 1]
    share = f"{100 * float(np.mean(dead)):.0f} % of its units are dead"
    if whole:
        return f"{share}, and in layer {whole[0]} all of them: no gradient gets through."
    return f"{share}: no gradient reaches them anymore." if float(np.mean(dead)) > DYING else None


def _tell_gain(what: str, gain: Gain, way: str) -> str:
    """`δ shrinks by a factor of 4.5 per layer on its way back to the first layer, to 10⁻¹² of its size.`"""
    word = "shrinks" if gain.in_all < 1 else "grows"
    if gain.in_all == 0 or not math.isfinite(gain.in_all):
        end = "exactly 0" if gain.in_all == 0 else "more than a number can hold"
        return f"{what} {word} on its way {way}, to {end}."
    factor = 1 / gain.per_layer if gain.per_layer < 1 else gain.per_layer
    end = f"to {written(gain.in_all, 2)} {'of' if gain.in_all < 1 else 'times'} its size"
    return f"{what} {word} by a factor of {factor:.3g} per layer on its way {way}, {end}."


def _tell_divergence(config: Config, state: ArmState, layers: Layers) -> str:
    """At which step, in which layer, and why."""
    assert state.diverged_step is not None
    head = f"Diverged at step {state.diverged_step:,}: the loss is no longer a number."
    return f"{head} {_tell_place(layers)} {_tell_cause(config, state)}"


def _tell_place(layers: Layers) -> str:
    beyond = [number for number, size in enumerate(layers.signal, 1) if not math.isfinite(size)]
    if beyond:
        return f"The activations overflow in layer {beyond[0]} of {len(layers.signal)}."
    sizes = [size if math.isfinite(size) else math.inf for size in layers.gradient]
    number = int(np.argmax(sizes)) + 1
    return f"The largest gradient is in layer {number} of {len(sizes)} ({written(sizes[number - 1], 2)})."


def _tell_cause(config: Config, state: ArmState) -> str:
    """The init, if the first loss is already beyond reason; else the learning rate, by how the loss went up."""
    finite = state.losses[np.isfinite(state.losses)]
    if len(finite) < 2:
        return "It started that way: the initial weights are too large. A smaller init scale or a norm would fix it."
    first, largest = float(finite[0]), float(finite.max())
    if largest > 2 * first:
        lowest = int(finite.argmin())
        rose = counted(len(finite) - lowest, "step")
        return (
            f"Within {rose} the loss rose from {written(float(finite[lowest]), 2)} to {written(largest, 2)}: a "
            f"learning rate of {written(config.train.lr)} is too high for this network."
        )
    return f"One step at a learning rate of {written(config.train.lr)} threw the weights out of range."
