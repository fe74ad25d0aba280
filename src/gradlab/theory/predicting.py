"""A prediction for one configuration: recursions where they hold, a simulation of the initial network elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import exp, log, pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.engines.base import one_blas_thread
from gradlab.errors import InvalidInput
from gradlab.network.activations import Identity
from gradlab.network.losses import Loss
from gradlab.network.mlp import MLP
from gradlab.network.norms import LayerNorm
from gradlab.network.skips import NoSkip
from gradlab.parts import Catalog
from gradlab.spec.config import Config
from gradlab.theory.delta import Delta, Top, carry_back, draw_top
from gradlab.theory.inputs import Inputs, Pool, measure_inputs, over_pairs, pool_of
from gradlab.theory.laws import Elementwise, law_of
from gradlab.theory.phase import Phase, plain_phase, skip_phase
from gradlab.theory.prediction import Forecast, Kind, LayerTheory, Prediction
from gradlab.theory.signal import (
    Passed,
    Signal,
    Spread,
    Walk,
    Weights,
    function_of,
    is_finite,
    noise_of,
    walk,
    weights_by_layer,
    why_not_forward,
)
from gradlab.theory.simulation import Simulation, simulate

Array = NDArray[Any]
ALIGNED = 0.15
"""Above this share of δ that points along the signal, the way back is only an order of magnitude."""
ROUNDING = 2.0**-22
"""Relative spread of a number that the architecture fixes: what is left is the rounding of float32."""
BACKWARD = ("delta_l2", "delta_rms", "grad_l2", "grad_rms", "grad_mean_abs", "bias_grad_l2")
Forecasts = dict[str, dict[int, Forecast]]


def predict_config(config: Config, catalog: Catalog, root: int, group: str = "") -> Prediction:
    """What should be measured before training, from the configuration and the task's inputs."""
    with one_blas_thread():
        return _predict(config, catalog, root, group)


def _predict(config: Config, catalog: Catalog, root: int, group: str) -> Prediction:
    pool = pool_of(config, catalog, root)
    inputs = measure_inputs(config, pool)
    mlp = MLP.of(config.model, pool.dataset.input_width, pool.dataset.output_width, catalog)
    weights = weights_by_layer(mlp, config.model.init, catalog)
    refusal = why_not_forward(mlp, weights)
    found = None if refusal else walk(mlp, weights, inputs)
    if found is not None and not is_finite(found):
        found, refusal = None, "the signal overflows"
    if found is None:
        return _simulated(config, catalog, pool, mlp, weights, inputs, group, refusal or "")
    loss: Loss = config.train.loss.build(catalog)
    with np.errstate(all="ignore"):
        top = draw_top(found, loss, inputs)
        deltas = carry_back(found, top, ALIGNED)
    forecasts = _forward(found, inputs)
    reasons: tuple[str, ...] = ()
    share = max((delta.aligned for delta in deltas.values()), default=0.0)
    expected = _initial_loss(top, inputs)
    scale = top.output_scale
    if share > ALIGNED:
        reasons = (_say_aligned("simulated", share),)
        drawn = simulate(config, catalog, pool, only=BACKWARD)
        forecasts |= {name: dict(drawn.forecasts.get(name, {})) for name in BACKWARD}
        expected = drawn.loss
    else:
        forecasts |= _backward(found, deltas, inputs)
    return _assemble(group, mlp, found, forecasts, expected, scale, _phase(mlp, weights, forecasts), reasons, inputs)


def predict_mlp(mlp: MLP, weights: list[Weights], inputs: Inputs, loss: Loss | None) -> Prediction:
    """What should be measured in a network that theory covers and no configuration describes: nothing is simulated.

    Without a loss, the signal only. A δ that points along the signal is an order of magnitude.
    """
    with one_blas_thread(), np.errstate(all="ignore"):
        found = walk(mlp, weights, inputs)
        if not is_finite(found):
            raise InvalidInput("predict: the signal overflows")
        forecasts = _forward(found, inputs)
        expected, scale = Forecast(float("nan"), 0.0, "exact"), found.top.p**0.5
        reasons: tuple[str, ...] = ()
        if found.head is not None:
            scale = found.head.out.p**0.5
        if loss is not None:
            top = draw_top(found, loss, inputs)
            deltas = carry_back(found, top)
            back = _backward(found, deltas, inputs)
            share = max((delta.aligned for delta in deltas.values()), default=0.0)
            if share > ALIGNED:
                reasons = (_say_aligned("an order of magnitude", share),)
                back = {name: {n: replace(one, kind="order") for n, one in by.items()} for name, by in back.items()}
            forecasts |= back
            expected, scale = _initial_loss(top, inputs), top.output_scale
        return _assemble("", mlp, found, forecasts, expected, scale, _phase(mlp, weights, forecasts), reasons, inputs)


def _say_aligned(kind: str, share: float) -> str:
    known = "theory gives only the order of magnitude"
    return f"δ is {kind}, because {100 * share:.0f} % of it points along the signal in some layer, where {known}"


def _simulated(
    config: Config,
    catalog: Catalog,
    pool: Pool,
    mlp: MLP,
    weights: list[Weights],
    inputs: Inputs,
    group: str,
    refusal: str,
) -> Prediction:
    drawn: Simulation = simulate(config, catalog, pool)
    forecasts = {name: dict(by) for name, by in drawn.forecasts.items()}
    phase = _phase(mlp, weights, forecasts)
    reasons = (f"{refusal}: {drawn.draws} initial networks are drawn instead",)
    return _assemble(group, mlp, None, forecasts, drawn.loss, drawn.output_scale, phase, reasons, inputs)


def _assemble(
    group: str,
    mlp: MLP,
    found: Walk | None,
    forecasts: Mapping[str, Mapping[int, Forecast]],
    loss: Forecast,
    scale: float,
    phase: Phase,
    reasons: tuple[str, ...],
    inputs: Inputs,
) -> Prediction:
    streams = {} if found is None else _streams(found)
    rows = []
    last = mlp.layers[-1].number
    for layer in mlp.layers:
        number = layer.number
        signal = streams.get(number)
        delta, gradient = forecasts.get("delta_l2", {}), forecasts.get("grad_l2", {})
        own = delta.get(number)
        rows.append(
            LayerTheory(
                number,
                "simulated" if signal is None and own is None else own.kind if own is not None else "exact",
                None if signal is None else signal.p,
                None if signal is None else signal.m,
                None if signal is None else signal.overlap,
                _ratio(delta, number, last),
                _ratio(gradient, number, last),
            )
        )
    measured = {
        "second_moment": float(np.mean(inputs.second.diagonal())),
        "overlap": inputs.overlap,
        "probe_batch": float(inputs.batch),
    }
    return Prediction(group, tuple(rows), forecasts, loss, scale, phase, reasons, measured)


def _ratio(forecasts: Mapping[int, Forecast], number: int, last: int) -> float:
    own, end = forecasts.get(number), forecasts.get(last)
    return own.center / end.center if own is not None and end is not None and end.center > 0 else float("nan")


def _streams(found: Walk) -> dict[int, Signal]:
    """What leaves each layer: of a block's last layer, the stream."""
    signals = {passed.layer.number: passed.out for passed in found.layers}
    return signals | {block.layers[-1].layer.number: block.out for block in found.blocks}


def _initial_loss(top: Top, inputs: Inputs) -> Forecast:
    """Over the draws of the network, and over those of the batch."""
    logs = np.log(top.losses[np.isfinite(top.losses) & (top.losses > 0)])
    if len(logs) < 2:
        return Forecast(float("nan"), 0.0, "exact")
    apart = top.losses_by_sample[np.isfinite(top.losses_by_sample)]
    of_batch = float(apart.var(ddof=1) / apart.mean() ** 2) * inputs.chance if len(apart) > 1 else 0.0
    return Forecast(float(np.exp(logs.mean())), sqrt(float(logs.var(ddof=1)) + of_batch), "exact")


def _forward(found: Walk, inputs: Inputs) -> Forecasts:
    """Mean and standard deviation at `pre`, `post` and `stream`."""
    out: Forecasts = {
        f"activation_{what}.{place}": {} for place in ("pre", "post", "stream") for what in ("mean", "std")
    }
    ends = {block.layers[-1].layer.number: block.out for block in found.blocks}
    if found.stem is not None:
        ends[found.stem.layer.number] = found.stem.out
    for passed in found.layers:
        number = passed.layer.number
        fixed = isinstance(passed.layer.norm, LayerNorm)  # takes the mean out of what enters the function
        leaving, end = _leaving(passed), ends.get(number)
        sizes = {"pre": _sizes(_entering(passed), inputs, fixed)}
        untouched = fixed and isinstance(passed.layer.activation, Identity)  # f(x) = x leaves what the norm has fixed
        sizes["post"] = sizes["pre"] if untouched else _sizes(leaving, inputs, False)
        if end is not None:
            sizes["stream"] = sizes["post"] if end is leaving else _sizes(end, inputs, False)
        for place, (deviation, mean) in sizes.items():
            out[f"activation_std.{place}"][number], out[f"activation_mean.{place}"][number] = deviation, mean
    return {name: by for name, by in out.items() if by}


def _entering(passed: Passed) -> Signal:
    """What enters the function, as a signal of its own."""
    units, c = passed.layer.units, passed.c
    zero = np.zeros(len(c))
    if (squash := function_of(passed.layer).squash) is not None:  # behind a dynamic tanh
        law = law_of(Elementwise(Identity(), squash), passed.seen, c)
        spread = passed.spread.then(law.growth, law.growth2, noise_of(law, c, ()) / units)
        return Signal(zero, law.second, units, spread)
    if passed.layer.activates_first:
        if passed.is_normed:
            return _normalized(passed, 0.0)
        return Signal(zero, passed.seen, units, passed.spread)
    if passed.is_normed:
        return _normalized(passed, 0.0 if passed.is_kept else 2 * c**2 / units)
    drawn = 0.0 * c if passed.taken else 2 * c**2 + passed.excess
    return Signal(zero, passed.seen, units, passed.spread.then(1.0, 0.0, drawn / units))


def _normalized(passed: Passed, drawn: Array | float) -> Signal:
    """z/√(q + ε): its second moment is 1 − ε/(q + ε), and spreads only as far as ε is not 0."""
    size = passed.units.then(1.0, 0.0, drawn)
    lost = np.clip(1 - passed.seen.diagonal(), 0.0, 1.0) * min(exp(0.5 * size.single - size.single_bias), 1e3)
    lost = np.minimum(lost, 1.0)
    spread = Spread(0.0, lost[:, None] * lost * size.covariance, size.batch)
    second = passed.seen.copy()
    second.flat[:: len(second) + 1] = 1 - lost
    return Signal(np.zeros(len(second)), second, passed.layer.units, spread)


def _leaving(passed: Passed) -> Signal:
    return passed.entry if passed.layer.activates_first else passed.out


def _sizes(signal: Signal, inputs: Inputs, centered: bool) -> tuple[Forecast, Forecast]:
    """(standard deviation, mean) over batch and units of n units, as a probe takes them."""
    batch, n = inputs.batch, signal.width
    middle = signal.mean[:, None] * signal.mean
    drift = 0.0 if centered else max(over_pairs(signal.second - middle, batch), 0.0) / n
    within = max(signal.p - over_pairs(middle, batch) - drift, 0.0)
    spread = signal.deviation.spread
    drifting = 2 * (drift / within) ** 2 if within > 0 else 0.0  # of the squared mean that is taken out
    center = sqrt(within) * _grown(spread.bias)
    sigma = max(0.5 * sqrt(max(spread.variance, 0.0) + drifting), ROUNDING)
    deviation = sqrt(drift + (0.5 * signal.m) ** 2 * max(signal.spread.variance, 0.0))
    mean = signal.m * _grown(signal.spread.bias)
    return (
        Forecast(center, sigma, "exact"),
        Forecast(mean, max(deviation, ROUNDING * center), "exact", signed=True),
    )


def _grown(bias: float) -> float:
    """What a size is multiplied by whose square has this bias; far outside of what theory is for, not inf."""
    return exp(0.5 * min(max(bias, -600.0), 600.0))


def _backward(found: Walk, deltas: Mapping[int, Delta], inputs: Inputs) -> Forecasts:
    """Sizes of δ and of the gradients of weights and biases."""
    out: Forecasts = {name: {} for name in BACKWARD}
    batch = inputs.batch
    for passed in found.layers:
        layer, delta = passed.layer, deltas[passed.layer.number]
        n = layer.fan_out
        sigma = 0.5 * sqrt(max(delta.variance, 0.0))
        size = sqrt(max(n * batch * delta.size, 0.0)) * _grown(delta.bias)
        number = layer.number
        out["delta_l2"][number] = Forecast(size, sigma, "exact")
        out["delta_rms"][number] = Forecast(size / sqrt(n * batch), sigma, "exact")
        kind: Kind = "exact" if batch == 1 else "order"
        entry = passed.entry
        product = over_pairs(entry.second * delta.second, batch)
        own = 0.5 * sqrt(max(delta.variance + entry.spread.variance, 0.0))
        whole = sqrt(max(layer.fan_in * n * product, 0.0)) * batch * _grown(delta.bias + entry.spread.bias)
        out["grad_l2"][number] = Forecast(whole, own, kind)
        out["grad_rms"][number] = Forecast(whole / sqrt(layer.fan_in * n), own, kind)
        out["grad_mean_abs"][number] = Forecast(whole / sqrt(layer.fan_in * n) * sqrt(2 / pi), own, "order")
        summed = sqrt(max(n * over_pairs(delta.second, batch), 0.0)) * batch * _grown(delta.bias)
        out["bias_grad_l2"][number] = Forecast(summed, sigma, kind)
    return out


def _phase(mlp: MLP, weights: list[Weights], forecasts: Mapping[str, Mapping[int, Forecast]]) -> Phase:
    """The phase of the hidden layers inside blocks."""
    inner = [layer for block in mlp.blocks for layer in block]
    if not inner:
        only = mlp.layers[0]
        return Phase(
            "constant", 1.0, weight=weights[0].weight, bias=weights[0].bias, first=only.number, last=only.number
        )
    first, last = inner[0].number, inner[-1].number
    own = weights[inner[len(inner) // 2].number - 1]
    if isinstance(mlp.skip, NoSkip):
        middle = inner[len(inner) // 2]
        return plain_phase(function_of(middle), own.weight, own.bias, middle.norm.name, first, last)
    delta = forecasts.get("delta_l2", {})
    ends = [delta.get(number) for number in (first, last)]
    factor = None
    if last > first and all(end is not None and end.center > 0 for end in ends):
        factor = exp(2 * log(ends[0].center / ends[1].center) / (last - first))  # type: ignore[union-attr]
    return skip_phase(factor, own.weight, own.bias, first, last)
