"""What a recording shows, from its numbers: what vanishes or explodes, the cause, and what would prevent it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from gradlab.audits.start import Gain, gain_of
from gradlab.errors import PartError
from gradlab.parts import BUILT_IN
from gradlab.report.figures.by_layer import say_gain
from gradlab.report.inside.recording import Inspection, Recording
from gradlab.spec.config import Config
from gradlab.spec.naming import capital, join
from gradlab.spec.numerals import counted, written

FAR = 100.0
"""A size that changes by this factor over all layers has vanished or exploded."""


@dataclass(frozen=True)
class Diagnosis:
    """The state of one arm by name, and the sentences that say why."""

    arm: str
    state: str
    """`vanishing`, `exploding`, `healthy` or `dead`."""
    words: str


def diagnose(recording: Recording, configs: tuple[Config, Config]) -> tuple[Diagnosis, Diagnosis]:
    """Each arm at its start, with the cause where the init is one, and what became of it in training."""
    first, second = (
        _diagnose_arm(name, inspections, config)
        for name, inspections, config in zip(recording.arms, recording.inspections, configs, strict=True)
    )
    return first, second


def _diagnose_arm(name: str, inspections: tuple[Inspection, ...], config: Config) -> Diagnosis:
    start, end = inspections[0], inspections[-1]
    hidden = slice(0, len(start.delta) - (config.model.head == "linear"))
    signal = gain_of(start.signal[hidden, 2] if start.signal[hidden, 2].all() else start.signal[hidden, 4])
    delta = gain_of(start.delta[hidden][::-1])
    trends = [("the signal", signal), ("δ, on its way back,", delta)]
    worst = max((_size(t) for _, t in trends if t is not None), default=1.0)
    words = [f"{what} {say_gain(t)}" for what, t in trends if t is not None]
    sentence = f"{capital(name)}: before training, {join(words) or 'there are too few layers to tell'}."
    dead = float(np.mean(end.dead[hidden]))
    state = "healthy"
    if worst > FAR:
        falling = any(t is not None and t.in_all < 1 / FAR for _, t in trends)
        state = "vanishing" if falling else "exploding"
        sentence += f" {_describe_cause(config, falling)}"
    elif dead > 0.9:
        state = "dead"
    if dead > 0.5:
        sentence += f" At the end, {100 * dead:.0f} % of its units are dead."
    return Diagnosis(name, state, f"{sentence} {_describe_course(start, end)}".strip())


def _size(t: Gain) -> float:
    return max(t.in_all, 1 / t.in_all) if t.in_all > 0 else np.inf


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


def _describe_course(start: Inspection, end: Inspection) -> str:
    if end.step == start.step or not np.isfinite(end.loss):
        return "" if end.step == start.step else "Its loss is no longer a number at the end."
    moved = end.loss / start.loss if start.loss > 0 else 1.0
    if 0.95 < moved < 1.05:
        return f"In {counted(end.step, 'step')}, the loss stays at {written(end.loss)}."
    word = "falls" if moved < 1 else "rises"
    return f"In {counted(end.step, 'step')}, the loss {word} from {written(start.loss)} to {written(end.loss)}."
