"""How long it takes to reach a target: steps, epochs, seconds; a seed that never does is censored, not left out."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gradlab.analysis.estimate import Estimate, estimate_share
from gradlab.analysis.measured import Measured


@dataclass(frozen=True)
class Convergence:
    """Medians over all seeds, those that never arrived counted as later than any: inf if that is half of them."""

    group: str
    reached: Estimate
    steps: float
    epochs: float
    seconds: float


def convergence_of(measured: Measured, group: str) -> Convergence | None:
    """None where the study has no target."""
    if measured.study.target is None:
        return None
    steps, epochs = measured.values("steps_to_target", group), measured.values("epochs_to_target", group)
    paces = measured.values("seconds_per_epoch", group)
    found = estimate_share(sum(value is not None for value in steps.values()), len(steps))
    if found is None:
        return None
    seconds = {
        seed: None if (e := epochs[seed]) is None or (pace := paces[seed]) is None else e * pace for seed in steps
    }
    return Convergence(
        group, found, _median(list(steps.values())), _median(list(epochs.values())), _median(list(seconds.values()))
    )


def _median(values: list[float | int | None]) -> float:
    """Of values of which None is later than any number."""
    ordered = sorted(math.inf if value is None else float(value) for value in values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    low, high = ordered[middle - 1], ordered[middle]
    return high if math.isinf(high) else (low + high) / 2
