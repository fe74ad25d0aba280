"""Initial networks in large numbers, for simulations: the same distributions as a trial's, drawn faster.

A trial draws every weight as F⁻¹(u) in float64. Here F⁻¹ is tabulated at the midpoints of 65,536 equally likely
intervals, and a weight is a random entry of that table: its variance is right to 10⁻³, and any init whose entries are
independent works. Where they are not, or a part draws tensors of its own, a network is drawn as a trial draws it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.arithmetic import one_blas_thread
from gradlab.network.initial import LayerInit, initial_parameters
from gradlab.network.inits import Init
from gradlab.network.mlp import MLP
from gradlab.parts import Catalog
from gradlab.spec.choice import InitChoice
from gradlab.spec.config import Config
from gradlab.streams import Streams
from gradlab.theory.inputs import Pool, batch_size, training_batch
from gradlab.theory.prediction import SIGMAS, Forecast
from gradlab.trials.measuring import observe
from gradlab.trials.setup import Setup, prepare
from gradlab.trials.trial import Trial

Array = NDArray[Any]
LEVELS = 2**16


class InitialNetworks:
    """Draws the flat parameters of one architecture, a new network for every number."""

    def __init__(self, mlp: MLP, choice: InitChoice, catalog: Catalog, root: int, dtype: Any) -> None:
        self._mlp, self._choice, self._catalog, self._root, self._dtype = mlp, choice, catalog, root, dtype
        self._drawn = [LayerInit.of(choice, mlp, layer, catalog) for layer in mlp.layers]
        self._constant: Array | None = None

    def draw(self, number: int) -> Array:
        """The parameters of network `number`."""
        if self._constant is None or not self._is_plain:
            flat = initial_parameters(self._mlp, self._choice, Streams(self._root, number), self._catalog)
            self._constant = flat.astype(self._dtype)
            return self._constant.copy()
        flat, generator = self._constant.copy(), np.random.default_rng((self._root, number))
        windows, name = self._mlp.layout.windows(flat).layers, np.dtype(self._dtype).name
        for layer, own, drawn in zip(self._mlp.layers, windows, self._drawn, strict=True):
            table = tabulate_quantiles(drawn.init, layer.fan_in, layer.fan_out, name)
            np.take(table, _levels(generator, own.weight.shape), out=own.weight)
            if drawn.scale != 1.0:
                own.weight[:] *= table.dtype.type(drawn.scale)
            if own.bias is not None and isinstance(drawn.bias, Init):
                table = tabulate_quantiles(drawn.bias, layer.fan_in, layer.fan_out, name)
                own.bias[:] = table[_levels(generator, own.bias.shape)]
        return flat

    @cached_property
    def _is_plain(self) -> bool:
        """Whether only weights and biases are random, entry by entry."""
        inits = [init for drawn in self._drawn for init in (drawn.init, drawn.bias) if isinstance(init, Init)]
        if any(not init.elementwise or type(init).weights is not Init.weights for init in inits):
            return False
        tensors = [tensor for layer in self._mlp.layers for tensor in layer.norm.tensors(1, 1).values()]
        for block in self._mlp.blocks:
            if block[0].fan_in != block[-1].fan_out:
                return False
            tensors += self._mlp.skip.tensors(block[-1].fan_out, self._mlp.depth).values()
        return not any(callable(tensor.start) for tensor in tensors)


def _levels(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return generator.integers(0, LEVELS, shape, np.uint16)


@lru_cache(maxsize=32)
def tabulate_quantiles(init: Init, fan_in: int, fan_out: int, dtype: str) -> Array:
    """F⁻¹ at the midpoints of equally likely intervals."""
    table = init.quantile((np.arange(LEVELS) + 0.5) / LEVELS, fan_in, fan_out).astype(dtype)
    table.setflags(write=False)
    return table


# What theory does not cover is simulated: initial networks are drawn, and the study's probes measure them.
#
# Nothing is trained. A draw is a new initial network on another probe batch, as another seed would be.

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
    init: Init = config.model.init.build(catalog)
    batch, first_batch = batch_size(config, pool), training_batch(config, pool)
    found: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    losses, scales = [], []
    running = setup.mlp.initial_running(setup.dtype)
    with np.errstate(all="ignore"), one_blas_thread():
        for number in range(first, first + (draws or count_draws(setup, batch))):
            x, y = pool.batch(config, number, batch)
            flat = networks.draw(number)
            if init.calibrates:
                flat = init.calibrate(setup.mlp, flat, x.astype(setup.dtype))
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
