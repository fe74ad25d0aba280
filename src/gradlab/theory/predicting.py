"""Predictions: recursions where they hold, a simulation of the initial network elsewhere; and those of a whole study.

The predictions of a study's groups are computed once, because a report asks for them again and again. They depend on
the model, the task, the loss and the probe batch, and on nothing that training changes. They are kept in memory and, as
they can be made again at any time, in the user's cache folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from math import exp, log, nan, pi, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.arithmetic import one_blas_thread
from gradlab.cache import cache_folder
from gradlab.data.base import Task
from gradlab.errors import GradlabError, InvalidInput
from gradlab.network.activations import Identity
from gradlab.network.losses import Loss
from gradlab.network.mlp import MLP
from gradlab.network.norms import LayerNorm
from gradlab.network.skips import NoSkip
from gradlab.parts import Catalog
from gradlab.spec.base import content_id
from gradlab.spec.config import Config
from gradlab.theory.delta import Delta, Top, carry_back, draw_top
from gradlab.theory.inputs import Inputs, catalog_key, measure_inputs, over_pairs, pool_of
from gradlab.theory.laws import Elementwise, law_of
from gradlab.theory.phase import Phase, plain_phase, skip_phase
from gradlab.theory.prediction import Forecast, Kind, LayerTheory, Prediction, from_json, to_json
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
from gradlab.words import percent

Array = NDArray[Any]
ALIGNED = 0.15
"""Above this share of δ that points along the signal, the way back is only an order of magnitude."""
ROUNDING = 2.0**-22
"""Relative spread of a number that the architecture fixes: what is left is the rounding of float32."""
BACKWARD = ("delta_l2", "delta_rms", "grad_l2", "grad_rms", "grad_mean_abs", "bias_grad_l2")
Forecasts = dict[str, dict[int, Forecast]]
Draw = Callable[[Collection[str]], Simulation]
"""Draws initial networks and measures them: only these measures, if some are named."""
VERSION = 5
"""Raised when predictions change."""
_KNOWN: dict[str, Prediction | None] = {}


def predict_config(config: Config, catalog: Catalog, root: int, group: str = "") -> Prediction:
    """What should be measured before training, from the configuration and the task's inputs."""
    with one_blas_thread():
        pool = pool_of(config, catalog, root)
        loss: Loss = config.train.loss.build(catalog)
        mlp = MLP.of(config.model, pool.dataset.input_width, loss.outputs(pool.dataset.output_width), catalog)
        weights = weights_by_layer(mlp, config.model.init, catalog)

        def draw(only: Collection[str]) -> Simulation:
            return simulate(config, catalog, pool, only=only)

        found = replace(_predict(mlp, weights, measure_inputs(config, pool), loss, draw), group=group)
        if not mlp.noises:
            return found
        left_out = "noise of training is left out, as where layers are measured; so the initial loss is not predicted"
        return replace(found, loss=Forecast(nan, 0.0, "exact"), reasons=(*found.reasons, left_out))


def predict_mlp(mlp: MLP, weights: list[Weights], inputs: Inputs, loss: Loss | None) -> Prediction:
    """What should be measured in a network that theory covers and no configuration describes: nothing is simulated.

    Without a loss, the signal only. A δ that points along the signal is an order of magnitude.
    """
    with one_blas_thread():
        return _predict(mlp, weights, inputs, loss, None)


def _predict(mlp: MLP, weights: list[Weights], inputs: Inputs, loss: Loss | None, draw: Draw | None) -> Prediction:
    refusal = why_not_forward(mlp, weights)
    with np.errstate(all="ignore"):
        network = None if refusal else walk(mlp, weights, inputs)
        if network is not None and not is_finite(network):
            network, refusal = None, "the signal overflows"
        if network is not None:
            forecasts, initial_loss, scale, reasons = _by_theory(network, inputs, loss, draw)
        elif draw is not None:
            drawn = draw(())
            forecasts = {name: dict(by) for name, by in drawn.forecasts.items()}
            initial_loss, scale = drawn.loss, drawn.output_scale
            reasons = (f"{refusal}: {drawn.draws} initial networks are drawn instead",)
        else:
            raise InvalidInput(f"predict: {refusal}")
    measured = {
        "second_moment": float(np.mean(inputs.second.diagonal())),
        "overlap": inputs.overlap,
        "probe_batch": float(inputs.batch),
    }
    phase, layers = _phase(mlp, weights, forecasts), _describe_layers(mlp, network, forecasts)
    return Prediction("", layers, forecasts, initial_loss, scale, phase, reasons, measured)


def _by_theory(
    network: Walk, inputs: Inputs, loss: Loss | None, draw: Draw | None
) -> tuple[Forecasts, Forecast, float, tuple[str, ...]]:
    """(forecasts, initial loss, size of the outputs, why something is not exact)."""
    forecasts = _forward(network, inputs)
    if loss is None:
        outputs = network.top if network.head is None else network.head.out
        return forecasts, Forecast(nan, 0.0, "exact"), outputs.p**0.5, ()
    top = draw_top(network, loss, inputs)
    # what is simulated further down need not be carried there
    deltas = carry_back(network, top) if draw is None else carry_back(network, top, ALIGNED)
    initial_loss = _initial_loss(top, inputs)
    share = max((delta.aligned for delta in deltas.values()), default=0.0)
    if share <= ALIGNED:
        return forecasts | _backward(network, deltas, inputs), initial_loss, top.output_scale, ()
    if draw is not None:
        kind, drawn = "simulated", draw(BACKWARD)
        back = {name: dict(drawn.forecasts.get(name, {})) for name in BACKWARD}
        initial_loss = drawn.loss
    else:
        kind, back = "an order of magnitude", _backward(network, deltas, inputs)
        back = {name: {n: replace(one, kind="order") for n, one in by.items()} for name, by in back.items()}
    known = "theory gives only the order of magnitude"
    reason = f"δ is {kind}, because {percent(share)} of it points along the signal in some layer, where {known}"
    return forecasts | back, initial_loss, top.output_scale, (reason,)


def _describe_layers(mlp: MLP, network: Walk | None, forecasts: Forecasts) -> tuple[LayerTheory, ...]:
    streams = {} if network is None else _streams(network)
    deltas, gradients = forecasts.get("delta_l2", {}), forecasts.get("grad_l2", {})
    rows, last = [], mlp.layers[-1].number
    for number in (layer.number for layer in mlp.layers):
        signal, delta = streams.get(number), deltas.get(number)
        kind: Kind = "exact" if delta is None else delta.kind
        ratios = _ratio(deltas, number, last), _ratio(gradients, number, last)
        if signal is None:
            rows.append(LayerTheory(number, "simulated" if delta is None else kind, None, None, None, *ratios))
        else:
            rows.append(LayerTheory(number, kind, signal.p, signal.m, signal.overlap, *ratios))
    return tuple(rows)


def _ratio(forecasts: Mapping[int, Forecast], number: int, last: int) -> float:
    here, end = forecasts.get(number), forecasts.get(last)
    return here.center / end.center if here is not None and end is not None and end.center > 0 else nan


def _streams(network: Walk) -> dict[int, Signal]:
    """What leaves each layer: of a block's last layer, the stream."""
    signals = {passed.layer.number: passed.out for passed in network.layers}
    return signals | {block.layers[-1].layer.number: block.out for block in network.blocks}


def _initial_loss(top: Top, inputs: Inputs) -> Forecast:
    """Over the draws of the network, and over those of the batch."""
    logs = np.log(top.losses[np.isfinite(top.losses) & (top.losses > 0)])
    if len(logs) < 2:
        return Forecast(nan, 0.0, "exact")
    apart = top.losses_by_sample[np.isfinite(top.losses_by_sample)]
    of_batch = float(apart.var(ddof=1) / apart.mean() ** 2) * inputs.chance if len(apart) > 1 else 0.0
    return Forecast(float(np.exp(logs.mean())), sqrt(float(logs.var(ddof=1)) + of_batch), "exact")


def _forward(network: Walk, inputs: Inputs) -> Forecasts:
    """Mean and standard deviation at `pre`, `post` and `stream`."""
    out: Forecasts = {
        f"activation_{what}.{place}": {} for place in ("pre", "post", "stream") for what in ("mean", "std")
    }
    ends = {block.layers[-1].layer.number: block.out for block in network.blocks}
    if network.stem is not None:
        ends[network.stem.layer.number] = network.stem.out
    for passed in network.layers:
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


def _backward(network: Walk, deltas: Mapping[int, Delta], inputs: Inputs) -> Forecasts:
    """Sizes of δ and of the gradients of weights and biases."""
    out: Forecasts = {name: {} for name in BACKWARD}
    batch = inputs.batch
    for passed in network.layers:
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


# ---------------------------------------------------------------------- the groups of a study


def predict_groups(configs: Mapping[str, Config], catalog: Catalog, root: int) -> dict[str, Prediction]:
    """Predictions by group; one that fails in a part of the user's own is left out."""
    known = {name: _predict_once(config, catalog, root) for name, config in configs.items()}
    return {name: replace(prediction, group=name) for name, prediction in known.items() if prediction is not None}


def _predict_once(config: Config, catalog: Catalog, root: int) -> Prediction | None:
    try:
        key = _key(config, catalog, root)
    except GradlabError:  # the data are not there any more
        return None
    if key in _KNOWN:
        return _KNOWN[key]
    path = None if catalog.files else _path(key)
    prediction = _read(path)
    if prediction is None:
        try:
            prediction = predict_config(config, catalog, root)
        except (ArithmeticError, np.linalg.LinAlgError):  # its numbers leave what float64 can hold: no prediction
            prediction = None
        except Exception:  # a user part may raise anything; its trials will then fail with that error
            if not catalog.files and config.data.name != "file":  # whose file may be gone
                raise
            prediction = None
        _write(path, prediction)
    _KNOWN[key] = prediction
    return prediction


def _key(config: Config, catalog: Catalog, root: int) -> str:
    task: Task = config.data.build(catalog)
    probes = config.measure.probes
    return content_id(
        [
            VERSION,
            config.model.model_dump(mode="json"),
            config.data.model_dump(mode="json"),
            task.fingerprint(),
            config.train.loss.model_dump(mode="json"),
            config.train.precision,
            config.train.batch,
            config.measure.probe.model_dump(mode="json"),
            probes if isinstance(probes, str) else list(probes),
            root,
            catalog_key(catalog),
        ]
    )


def _path(key: str) -> Path | None:
    folder = cache_folder("theory")
    return None if folder is None else folder / f"{key}.json"


def _read(path: Path | None) -> Prediction | None:
    if path is None:
        return None
    try:
        return from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(path: Path | None, prediction: Prediction | None) -> None:
    if path is None or prediction is None:
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with suppress(OSError):
        temporary.write_text(json.dumps(to_json(prediction)), encoding="utf-8")
        os.replace(temporary, path)
