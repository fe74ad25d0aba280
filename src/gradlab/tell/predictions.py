"""A prediction in sentences: the phase, how deep a gradient reaches, what would be critical, the first loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite

from gradlab.facts import VANISHING
from gradlab.theory.phase import TRAINABLE, Phase, safe_alpha
from gradlab.theory.prediction import Prediction
from gradlab.words import SHOWN, counted, join, per_layer, written

NEAR = 0.03
"""A size that changes by less than this share per layer keeps its size."""


def tell(prediction: Prediction) -> list[str]:
    """Sentences on one group, the most important first."""
    phase = prediction.phase
    told = [_phase(prediction), _reach(phase), _critical(phase), _start(prediction)]
    told += [f"Not exact: {reason}." for reason in prediction.reasons]
    return [sentence for sentence in told if sentence]


TERMS = {
    "Ordered": "ordered: two inputs become alike, and δ vanishes, with depth",
    "Chaotic": "chaotic: alike inputs are torn apart, and δ explodes, with depth",
    "Critical": "critical: neither; signals keep their size through any number of layers",
    "δ": "δ = dL/dz: the error signal that is sent back from the loss to a layer",
    "ξ_c": "ξ_c: the depth scale, the layers after which two inputs cannot be told apart",
    "σw²": "σw²: the variance of the weights times the units that enter a layer",
    "overlap": "overlap: the correlation of two inputs in a layer",
}
"""Word -> what it is; told where it is first used."""


def explain_terms(sentences: Sequence[str], *, tables: bool) -> list[str]:
    """The terms that these sentences use, and of the tables the overlap."""
    text = " ".join(sentences) + (" overlap" if tables else "")
    return [meaning for word, meaning in TERMS.items() if word in text]


def conclude(predictions: Mapping[str, Prediction], names: Mapping[str, str]) -> str:
    """Which groups should train, and why: one sentence."""
    doubts = {group: _doubt(one) for group, one in predictions.items()}
    fine, bad = ([group for group, doubt in doubts.items() if bool(doubt) is wrong] for wrong in (False, True))
    if not bad:
        return f"Conclusion: nothing that vanishes or explodes should keep {_all(fine, names)} from training."
    told = join([f"{names[group]} ({doubts[group]})" for group in bad[:SHOWN]])
    more = f" and {len(bad) - SHOWN} more" if len(bad) > SHOWN else ""
    should = f"Conclusion: {told}{more} should train slowly or not at all"
    return f"{should}; {_all(fine, names)} should." if fine else f"{should}."


def _all(groups: Sequence[str], names: Mapping[str, str]) -> str:
    return join([names[group] for group in groups]) if len(groups) <= SHOWN else f"the other {len(groups)} groups"


def _doubt(prediction: Prediction) -> str:
    """Why a network should not train; empty if nothing speaks against it."""
    for measure, what, back in (("activation_std.post", "the signal", False), ("delta_l2", "δ", True)):
        change = prediction.change(measure)
        if change is None or change <= 0:
            continue
        change = 1 / change if back else change
        if change < 1 / VANISHING:
            return f"{what} falls {written(1 / change, 2)} times over its layers"
        if change > VANISHING:
            return f"{what} grows {written(change, 2)} times over its layers"
    return ""


def _phase(prediction: Prediction) -> str:
    phase = prediction.phase
    if phase.last <= phase.first:
        return ""
    delta = prediction.per_layer("delta_l2")
    signal = prediction.signal_per_layer
    words = {
        "ordered": "Ordered", "chaotic": "Chaotic", "critical": "Critical", "grows": "Growing", "constant": "Constant"
    }[phase.word]  # fmt: skip
    pieces = []
    if delta is not None:
        pieces.append(f"δ {_changes(1 / delta, ' on its way back')}")
    if signal is not None:
        pieces.append(f"the signal {_changes(signal)}")
    return f"{words}: {'; '.join(pieces)}." if pieces else ""


def _changes(factor: float, where: str = "") -> str:
    if abs(factor - 1) < NEAR:
        return f"keeps its size{where} ({written(factor, 3)}× per layer)"
    return f"{per_layer(factor)}{where}"


def _reach(phase: Phase) -> str:
    parts = []
    if phase.reach is not None:
        reach = counted(int(phase.reach), "layer")
        parts.append(f"A gradient reaches {reach}: after that, less than 10⁻⁴ of it is left.")
    depth = phase.trainable_depth
    if depth is not None and isfinite(depth) and depth < 1e6:
        verdict = "deeper than that" if phase.depth > depth else "within that"
        layers = f"{counted(phase.depth, 'layer')} {'is' if phase.depth == 1 else 'are'}"
        parts.append(f"Trainable to a depth of about {written(depth, 2)} ({TRAINABLE:g} ξ_c); {layers} {verdict}.")
    elif phase.word == "critical":
        parts.append("Theory sets no limit to the trainable depth.")
    return " ".join(parts)


def _critical(phase: Phase) -> str:
    scale = phase.critical_scale
    if phase.word in ("critical", "constant", "grows") or scale is None:
        return ""
    alpha = safe_alpha(phase.critical_weight or phase.weight, 1 / (phase.critical_weight or 1.0), phase.depth)
    return (
        f"To make it critical: weights {written(scale, 3)} times as large (σw² = "
        f"{written(phase.critical_weight or 0.0, 4)} instead of {written(phase.weight, 4)}), or "
        f"those weights and `skip: scaled` with α ≤ {written(alpha, 2)}."
    )


def _start(prediction: Prediction) -> str:
    loss = prediction.loss
    if not isfinite(loss.center):
        return f"Outputs have the size {written(prediction.output_scale, 3)} before training."
    return (
        f"Before training: loss {written(loss.center, 3)} (95 % of seeds: {written(loss.low, 3)} to "
        f"{written(loss.high, 3)}), outputs of size {written(prediction.output_scale, 3)}."
    )
