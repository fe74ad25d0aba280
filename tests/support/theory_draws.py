"""Is the theory right? Predictions against many drawn initial networks, layer by layer.

Where a prediction claims to be exact, the mean of the logarithm over draws has to lie within three standard errors of
it (or within 2 %, where draws hardly differ); where it claims an order of magnitude, within a factor of 2. And the 95 %
band has to hold 95 % of the draws; of a simulation, draws that it has not seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import log, sqrt
from typing import Any

import numpy as np

from gradlab.parts import Catalog
from gradlab.spec.config import Config
from gradlab.theory.inputs import pool_of
from gradlab.theory.predicting import predict_config
from gradlab.theory.prediction import FACTOR, Forecast, Kind
from gradlab.theory.simulation import draw_values, summarize

MEASURES = ("activation_std.pre", "activation_std.post", "activation_std.stream", "delta_l2", "grad_l2")
ERRORS, SLACK = 3.0, 0.02
NEW = 100_001
"""The first network that is drawn to check with: a simulation has seen those from 1 on."""


@dataclass(frozen=True)
class Checked:
    """One measure in one layer: what was predicted, what the draws gave."""

    measure: str
    layer: int
    predicted: Forecast
    drawn: Forecast
    draws: int
    inside: float
    """Share of the draws inside the 95 % band."""

    @property
    def kind(self) -> Kind:
        """What the prediction claims to be."""
        return self.predicted.kind

    @property
    def off(self) -> float:
        """ln(drawn/predicted)."""
        return log(self.drawn.center / self.predicted.center)

    @property
    def error(self) -> float:
        """Standard error of the mean logarithm over the draws."""
        return self.drawn.spread / sqrt(self.draws)

    @property
    def is_sharp(self) -> bool:
        """Whether the standard error is below a third of the correction for the width.

        A log-normal size whose logarithm has the variance σ² is typically e^(−σ²) times the root of its mean square.
        """
        return self.error <= self.predicted.spread**2 / 3

    @property
    def agrees(self) -> bool:
        """Whether the draws cannot be told from the prediction: no slack."""
        return abs(self.off) <= ERRORS * self.error

    @property
    def passes(self) -> bool:
        """Whether the prediction keeps its promise."""
        if self.kind == "order":
            return abs(self.off) <= log(FACTOR)
        return self.agrees or abs(self.off) <= SLACK


def check(
    config: Config, catalog: Catalog, root: int, draws: int = 60, kinds: Sequence[Kind] = ("exact", "order")
) -> list[Checked]:
    """Compare predictions of these kinds with draws, for every layer and measure."""
    prediction = predict_config(config, catalog, root)
    if not any(one.kind in kinds for measure in MEASURES for one in prediction.forecasts.get(measure, {}).values()):
        return []
    values, _, _ = draw_values(config, catalog, pool_of(config, catalog, root), draws, NEW)
    found, smallest = [], float(np.finfo(config.train.precision).tiny)  # below it, a network's numbers are 0 or rounded
    for measure in MEASURES:
        for layer, numbers in values.get(measure, {}).items():
            forecast, drawn = prediction.forecast(measure, layer), summarize(measure, numbers)
            if (
                forecast is None
                or drawn is None
                or forecast.kind not in kinds
                or not min(forecast.center, drawn.center) > smallest
            ):
                continue
            inside = sum(forecast.low <= value <= forecast.high for value in numbers) / len(numbers)
            found.append(Checked(measure, layer, forecast, drawn, draws, inside))
    return found


def initial_network(width: int, depth: int, batch: int, **model: Any) -> Config:
    """An MNIST network of this size, on a probe batch of this size, that is only measured."""
    return Config.model_validate(
        {
            "data": {"task": "mnist", "train": 2000, "validation": 0, "test": 100, "pixels": "standardized"},
            "model": {"width": width, "depth": depth, **model},
            "train": {"loss": "cross_entropy", "optimizer": "sgd", "lr": 1e-3, "batch": batch, "steps": 0},
            "measure": {"probe": {"batch": "train", "size": batch}},
        }
    )


def cover_pairs(axes: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """Combinations in which every two values of two axes occur together at least once (greedy, deterministic)."""
    names = list(axes)
    left = {
        ((a, x), (b, y))
        for a, b in combinations(range(len(names)), 2)
        for x, y in product(range(len(axes[names[a]])), range(len(axes[names[b]])))
    }
    every = list(product(*(range(len(axes[name])) for name in names)))
    while left:
        best = max(every, key=lambda row: sum(pair in left for pair in _pairs(row)))
        left -= set(_pairs(best))
        yield {name: axes[name][place] for name, place in zip(names, best, strict=True)}


def _pairs(row: Sequence[int]) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    return list(combinations(enumerate(row), 2))
