"""What theory does not cover is simulated: initial networks are drawn, and the study's probes measure them.

Nothing is trained. A draw is a new initial network on another probe batch, as another seed would be.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.engines.base import one_blas_thread
from gradlab.parts import Catalog
from gradlab.spec.config import Config
from gradlab.theory.drawing import InitialNetworks
from gradlab.theory.inputs import Pool, batch_size, training_batch
from gradlab.theory.prediction import SIGMAS, Forecast
from gradlab.trials.measuring import observe
from gradlab.trials.setup import Setup, prepare
from gradlab.trials.trial import Trial

Array = NDArray[Any]
FEWEST, MOST = 12, 96
WORK = 2e8
"""Floating-point operations that all draws may take together, unless that were fewer than FEWEST draws."""
ROOT = 271_828
"""The draws have streams of their own: they are not the study's seeds."""
SIGNED = "activation_mean."


@dataclass(frozen=True)
class Simulation:
    """Many initial networks, measured."""

    forecasts: Mapping[str, Mapping[int, Forecast]]
    loss: Forecast
    output_scale: float
    draws: int


def count_draws(setup: Setup, batch: int) -> int:
    """As many as the work allows."""
    return int(np.clip(WORK / (6.0 * setup.mlp.layout.size * (batch + 40)), FEWEST, MOST))


def simulate(config: Config, catalog: Catalog, pool: Pool, only: Collection[str] = ()) -> Simulation:
    """Draw initial networks, and measure them (`only` these measures, if named) as a trial would before its start."""
    found, losses, scales = draw_values(config, catalog, pool, only=only)
    forecasts = {name: _summarize_layers(name, by) for name, by in found.items() if name != "dead_share"}
    loss = summarize("loss", losses) or Forecast(float("nan"), 0.0, "simulated")
    return Simulation(forecasts, widen(loss, len(losses)), float(np.median(scales)), len(losses))


def draw_values(
    config: Config,
    catalog: Catalog,
    pool: Pool,
    draws: int | None = None,
    first: int = 1,
    only: Collection[str] = (),
) -> tuple[dict[str, dict[int, list[float]]], list[float], list[float]]:
    """(measure -> layer -> value in every draw, losses, sizes of the outputs), of networks `first` and following."""
    setup = prepare(Trial("", "", 1, pool.root, config, catalog))
    if only:
        setup = replace(setup, probes=tuple(probe for probe in setup.probes if set(probe.measures) & set(only)))
    networks = InitialNetworks(setup.mlp, config.model.init, catalog, ROOT, setup.dtype)
    batch, first_batch = batch_size(config, pool), training_batch(config, pool)
    found: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    losses, scales = [], []
    running = setup.mlp.initial_running(setup.dtype)
    with np.errstate(all="ignore"), one_blas_thread():
        for number in range(first, first + (draws or count_draws(setup, batch))):
            x, y = pool.batch(config, number, batch)
            flat = networks.draw(number)
            own = replace(setup, theta=flat, probe_x=x.astype(setup.dtype), probe_y=pool.dataset.typed(y, setup.dtype))
            output, measures = observe(own, "start", flat, running, None)
            for layer, numbers in measures:
                for name, value in numbers.items():
                    found[name][layer].append(value)
            losses.append(setup.loss.value(output[:first_batch], own.probe_y[:first_batch]))
            scales.append(float(np.sqrt(np.mean(np.square(output, dtype=np.float64)))))
    return found, losses, scales


def widen(forecast: Forecast, draws: int) -> Forecast:
    """The band that holds 95 % of new seeds when center and spread are themselves estimated from a few draws."""
    return replace(forecast, spread=forecast.spread * _widening(draws))


@lru_cache
def _widening(draws: int) -> float:
    """A prediction interval of Student's t against one of the normal distribution."""
    from scipy.special import stdtrit

    return float(stdtrit(max(draws - 1, 1), 0.975)) * sqrt(1 + 1 / draws) / SIGMAS


def _summarize_layers(name: str, values: Mapping[int, list[float]]) -> dict[int, Forecast]:
    """`summarize` of every layer, widened; in one go where every layer has a number in every draw."""
    counts = {len(own) for own in values.values()}
    numbers = np.array(list(values.values())) if len(counts) == 1 else np.array([np.nan])
    if name.startswith(SIGNED) or not (np.isfinite(numbers) & (numbers > 0)).all():
        found = {layer: (summarize(name, own), len(own)) for layer, own in values.items()}
        return {layer: widen(known, draws) for layer, (known, draws) in found.items() if known is not None}
    logs, (draws,) = np.log(numbers), counts
    centers, spreads = np.exp(logs.mean(1)).tolist(), (logs.std(1, ddof=1) * _widening(draws)).tolist()
    return {
        layer: Forecast(center, spread, "simulated")
        for layer, center, spread in zip(values, centers, spreads, strict=True)
    }


def summarize(name: str, values: list[float]) -> Forecast | None:
    """Center and spread over the draws; None if most draws have no number."""
    numbers = np.array(values)
    finite = numbers[np.isfinite(numbers)]
    if len(finite) < 0.5 * len(numbers):
        return None
    if name.startswith(SIGNED):
        return Forecast(float(finite.mean()), float(finite.std(ddof=1)), "simulated", signed=True)
    if not (finite > 0).all():
        positive = finite[finite > 0]
        if len(positive) < 0.5 * len(numbers):
            return Forecast(0.0, 0.0, "simulated") if len(positive) == 0 else None
        finite = positive
    logs = np.log(finite)
    return Forecast(float(np.exp(logs.mean())), float(logs.std(ddof=1)), "simulated")
