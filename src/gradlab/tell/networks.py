"""The state of a network of the lab as a fact: live, after a step, or recorded from its start to its end."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradlab.audits.start import gain_of
from gradlab.errors import PartError
from gradlab.facts import DEAD, Fact, Gain
from gradlab.parts import BUILT_IN
from gradlab.spec.config import Config
from gradlab.words import capital, counted, join, percent, say_gain, written

Losses = NDArray[Any]
"""The loss of every step so far."""
LATELY, SAME = 20, 0.97
"""Steps over which a loss is averaged, and the share of the first loss above which nothing was learned."""
STEADY = 0.05
"""A recorded loss that ends within this share of where it began has stayed."""


class Layers(NamedTuple):
    """One number per layer and row, in forward order."""

    signal: list[float]
    """Root mean square of the activations (of the residual stream, where there is one)."""
    delta: list[float]
    """Root mean square of δ = dL/dz."""
    gradient: list[float]
    """Root mean square of dL/dW."""
    dead: list[float]
    """Share of units whose slope is 0 on the whole probe batch."""


def describe_network(
    config: Config, losses: Losses, diverged_step: int | None, layers: Layers, guessing: float
) -> Fact:
    """Describe the state of a network after a step; `guessing` is the loss of one answer for all samples."""
    if diverged_step is not None:
        words = f"Diverged at step {diverged_step:,}: the loss is no longer a number."
        words = f"{words} {_describe_overflow(layers)} {_describe_divergence(config, losses)}"
        return Fact("diverged", words, severity="problem", numbers={"step": diverged_step})
    hidden = slice(0, len(layers.delta) - (config.model.head == "linear"))
    now, course = recent_loss(losses), _describe_losses(losses, guessing)
    # clearly below the first loss, and below that of guessing
    learned = now is not None and now < SAME * min(float(losses[0]), guessing)
    dead = _find_dead_units(layers.dead[hidden])
    flow = None if learned else find_flow(gain_of(layers.signal[hidden]), gain_of(layers.delta[hidden][::-1]))
    # a whole layer of dead units explains everything else; without one, a flow that stops is the worse problem
    if dead is not None and (learned or flow is None or dead.numbers["whole_layers"]):
        return replace(dead, words=f"{course}{dead.words}")
    if flow is not None:
        return replace(flow, words=f"{course}{flow.words}")
    if now is None:
        return Fact("ready", "Neither the signal nor δ vanishes or explodes over the layers.", severity="note")
    numbers = {"first_loss": float(losses[0]), "loss": now}
    if learned:
        return Fact("learning", course.strip(), severity="note", numbers=numbers)
    return Fact("stuck", course.strip(), numbers=numbers)


def recent_loss(losses: Losses) -> float | None:
    """The mean loss of the last steps; None before the first step."""
    return float(np.mean(losses[-LATELY:])) if len(losses) else None


def find_flow(signal: Gain | None, delta: Gain | None) -> Fact | None:
    """Find the first of δ and signal that vanishes or explodes over the layers."""
    flows = (
        ("gradients", "The backprop signal δ", delta, "back to the first layer"),
        ("signal", "The signal", signal, "to the last layer"),
    )
    vanishing = [("vanishing", *flow) for flow in flows if flow[2] is not None and flow[2].vanishes]
    exploding = [("exploding", *flow) for flow in reversed(flows) if flow[2] is not None and flow[2].explodes]
    for what, code, name, gain, way in (*vanishing, *exploding):
        assert gain is not None
        words = f"{name} {say_gain(gain)} on its way {way}."
        numbers = {"per_layer": gain.per_layer, "in_all": gain.in_all}
        return Fact(f"{what}_{code}", words, severity="problem", numbers=numbers)
    return None


def _find_dead_units(dead: list[float]) -> Fact | None:
    """Find dead units where they matter: a whole layer, or most of all."""
    whole = [number for number, share in enumerate(dead, 1) if share == 1]
    share = float(np.mean(dead))
    if not whole and not share > DEAD:
        return None
    end = f", and in layer {whole[0]} all of them: no gradient gets through." if whole else None
    words = f"{percent(share)} of its units are dead{end or ': no gradient reaches them anymore.'}"
    return Fact("dead_units", words, severity="problem", numbers={"share": share, "whole_layers": len(whole)})


def _describe_losses(losses: Losses, guessing: float) -> str:
    """Where the loss came from and where it is, with a space behind; empty before the first step."""
    now = recent_loss(losses)
    if now is None:
        return ""
    first = float(losses[0])
    if now >= SAME * first:
        return f"The loss {'stays at' if now < first / SAME else f'rose from {written(first)} to'} {written(now)}. "
    if now < SAME * guessing:
        level = ""
    else:
        level = ", the loss of guessing" if now < guessing / SAME else ", worse than guessing"
    return f"The loss fell from {written(first)} to {written(now)}{level}. "


def _describe_overflow(layers: Layers) -> str:
    """In which layer a diverged network went out of range."""
    beyond = [number for number, size in enumerate(layers.signal, 1) if not math.isfinite(size)]
    if beyond:
        return f"The activations overflow in layer {beyond[0]} of {len(layers.signal)}."
    sizes = [size if math.isfinite(size) else math.inf for size in layers.gradient]
    number = int(np.argmax(sizes)) + 1
    return f"The largest gradient is in layer {number} of {len(sizes)} ({written(sizes[number - 1], 2)})."


def _describe_divergence(config: Config, losses: Losses) -> str:
    """The init, if the first loss is already beyond reason; else the learning rate, by how the loss went up."""
    finite = losses[np.isfinite(losses)]
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


# A network that was recorded: its start, the cause where the init is one, and what became of it.


class Course(NamedTuple):
    """A recorded network: how signal and δ change over its hidden layers at the start, and how it ended."""

    signal: Gain | None
    delta: Gain | None
    losses: tuple[float, float]
    """At the first and at the last recorded step."""
    steps: int
    """Between the two."""
    dead: float
    """Share of dead units at the end."""


def diagnose_course(arm: str, config: Config, course: Course) -> Fact:
    """What vanishes, explodes or dies in an arm, and what would prevent it; `healthy` if nothing does."""
    trends = (("the signal", course.signal), ("δ, on its way back,", course.delta))
    flows = [f"{what} {say_gain(gain)}" for what, gain in trends if gain is not None]
    sentences = [f"{capital(arm)}: before training, {join(flows) or 'there are too few layers to tell'}."]
    flow = find_flow(course.signal, course.delta)
    if flow is not None:
        sentences.append(_describe_cause(config, flow.code.startswith("vanishing")))
    if course.dead > DEAD:
        sentences.append(f"At the end, {percent(course.dead)} of its units are dead.")
    words = " ".join(filter(None, [*sentences, _describe_course(course)]))
    if flow is not None:
        return replace(flow, words=words, subject=arm)
    if course.dead > DEAD:
        return Fact("dead_units", words, arm, "problem", {"share": course.dead})
    return Fact("healthy", words, arm, "note")


def _describe_cause(config: Config, falling: bool) -> str:
    """The cause, and what would prevent it."""
    init, skip = config.model.init, config.model.skip.kind
    scale = f" at scale {str(init.scale).replace('sqrt(depth)', '√depth')}" if init.scale != 1 else ""
    imposed = f"The initial weights ({_call(init.kind)}{scale}) cause it"
    if falling and skip == "none":
        scaled_he = init.scale != 1 and init.kind.startswith("he_")
        other = "scale 1" if scaled_he else "a critical init (`gradlab predict` names it)"
        return f"{imposed}; an identity skip or {other} would prevent it."
    if falling:
        return f"{imposed}."
    if skip == "none":
        return f"{imposed}; smaller weights or a norm would prevent it."
    return f"{imposed}: every block adds to the stream; a scale of 1/√depth, or a norm in the branch, would bound it."


def _call(init: str) -> str:
    """An init as people call it: `He init`."""
    with suppress(PartError):  # an init of the user's own
        if called := BUILT_IN.get("init", init).called:
            return called
    return f"{init.replace('_', ' ')} init"


def _describe_course(course: Course) -> str:
    (first, last), steps = course.losses, counted(course.steps, "step")
    if not course.steps or not math.isfinite(last):
        return "Its loss is no longer a number at the end." if course.steps else ""
    if first <= 0 or abs(last / first - 1) < STEADY:
        return f"In {steps}, the loss stays at {written(last)}."
    return f"In {steps}, the loss {'falls' if last < first else 'rises'} from {written(first)} to {written(last)}."
