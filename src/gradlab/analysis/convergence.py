"""How long it takes to reach a target: steps, epochs, seconds; a seed that never does is censored, not left out."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gradlab.analysis.estimate import Estimate
from gradlab.analysis.measured import Measured
from gradlab.analysis.rules import Proportion


@dataclass(frozen=True)
class Convergence:
    """Medians over all seeds, those that never arrived counted as later than any: inf if that is half of them."""

    group: str
    reached: Estimate
    steps: float
    epochs: float
    seconds: float
    unknown: int = 0
    """Planned seeds that failed or are missing."""


def convergence_of(measured: Measured, group: str) -> Convergence | None:
    """None where the study has no target."""
    if measured.study.target is None:
        return None
    steps, epochs = measured.sample("steps_to_target", group), measured.sample("epochs_to_target", group)
    paces = measured.values("seconds_per_epoch", group)
    known = steps.known
    if not known:
        return None
    arrived = Proportion(sum(map(math.isfinite, known)), len(steps.ends), steps.unknown)
    seconds = [
        low * pace if math.isfinite(low) and (pace := paces.get(seed)) is not None else math.inf
        for seed, (low, high) in epochs.ends.items()
        if low == high
    ]
    return Convergence(group, arrived.estimate, _median(known), _median(epochs.known), _median(seconds), steps.unknown)


def _median(values: list[float]) -> float:
    """Of values of which infinity is later than any number."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    low, high = ordered[middle - 1], ordered[middle]
    return high if math.isinf(high) else (low + high) / 2
