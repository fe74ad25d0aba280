"""A layer measure of a group, seed by seed and layer by layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Profile:
    """A layer measure at one step in one group: values[seed, layer], NaN where it does not exist."""

    group: str
    measure: str
    step: int
    layers: NDArray[np.int64]
    values: NDArray[np.float64]


def over_layers(
    found: Mapping[tuple[int, int], float], seeds: Sequence[int], choose: Callable[[list[float]], float]
) -> dict[int, float | int | None]:
    """Seed -> the least or most of all layers; NaN where a layer has no number."""
    by_seed: dict[int, list[float]] = {}
    for (seed, _), value in found.items():
        by_seed.setdefault(seed, []).append(value)
    chosen = {seed: np.nan if np.isnan(values).any() else choose(values) for seed, values in by_seed.items()}
    return {seed: chosen.get(seed) for seed in seeds}
