"""What a recording shows, from its numbers: what vanishes or explodes, the cause, and what would remove it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradlab.audits.start import Gain, gain_of
from gradlab.report.inside.inspection import Inspection
from gradlab.report.inside.recording import Recording
from gradlab.spec.config import Config

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
    trends = [("signal", signal), ("δ", delta)]
    worst = max((_size(t) for _, t in trends if t is not None), default=1.0)
    words = [f"{what} {_describe_gain(t)}" for what, t in trends if t is not None]
    sentence = f"{name}: before training, {' and '.join(words) or 'there is nothing to see'}."
    dead = float(np.mean(end.dead[hidden]))
    state = "healthy"
    if worst > FAR:
        falling = any(t is not None and t.in_all < 1 / FAR for _, t in trends)
        state = "vanishing" if falling else "exploding"
        sentence += f" {_describe_cause(config, falling)}"
    elif dead > 0.9:
        state = "dead"
    if dead > 0.5:
        sentence += f" {100 * dead:.0f} % of its units are dead at the end."
    return Diagnosis(name, state, f"{sentence} {_describe_course(start, end)}".strip())


def _size(t: Gain) -> float:
    return max(t.in_all, 1 / t.in_all) if t.in_all > 0 else np.inf


def _describe_gain(t: Gain) -> str:
    if 0.97 <= t.per_layer <= 1.03:
        return "keeps its size"
    word, way = ("loses", "down to") if t.per_layer < 1 else ("gains", "up to")
    if not 0 < t.per_layer < np.inf:
        return f"{word} all at once, {way} {t.end}"
    factor = 1 / t.per_layer if t.per_layer < 1 else t.per_layer
    return f"{word} a factor of {factor:.3g} per layer, {way} {t.end}"


def _describe_cause(config: Config, falling: bool) -> str:
    """The cause, and what would remove it."""
    init, skip = config.model.init, config.model.skip.kind
    scale = f" with the scale {init.scale}" if init.scale != 1 else ""
    imposed = f"The initial weights ({init.kind}{scale}) impose it"
    if falling and skip == "none":
        other = "scale 1" if init.scale != 1 else "He's init"
        return f"{imposed}; an identity skip or {other} would remove it."
    if falling:
        return f"{imposed}."
    if skip == "none":
        return f"{imposed}; smaller weights or a norm would remove it."
    return f"{imposed}: every block adds to the stream; a scale of 1/√depth, or a norm in the branch, would bound it."


def _describe_course(start: Inspection, end: Inspection) -> str:
    if end.step == start.step or not np.isfinite(end.loss):
        return "" if end.step == start.step else "Its loss is no longer a number at the end."
    moved = end.loss / start.loss if start.loss > 0 else 1.0
    word = "stays at" if 0.95 < moved < 1.05 else "falls to" if moved < 1 else "rises to"
    return f"In {end.step:,} steps the loss {word} {end.loss:.3g} from {start.loss:.3g}."
