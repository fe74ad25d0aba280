"""What theory expects of two recorded networks before training: the dotted lines of the micro-world's first step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import sqrt

from gradlab.analysis.measured import Measured
from gradlab.analysis.theory import predictions_of
from gradlab.network.skips.base import Skip
from gradlab.report.inside.inspection import MOST_SAMPLES
from gradlab.spec.config import Config
from gradlab.theory.groups import predict_groups
from gradlab.theory.prediction import Forecast, Prediction

Forecasts = Mapping[int, Forecast]


@dataclass(frozen=True)
class Expected:
    """What theory expects of one network, by layer: δ, what enters, and the weight gradient, as root mean squares."""

    delta: Forecasts
    entering: Forecasts
    gradient: Forecasts


@dataclass(frozen=True)
class TheoryLine:
    """A forecast by place, with the band that holds 95 % of the seeds; None where there is no forecast."""

    arm: int
    center: tuple[float | None, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]


def expect(measured: Measured, arms: Mapping[str, Config]) -> tuple[Expected | None, ...]:
    """What theory expects of each arm on the batch that is inspected; None where it has no prediction."""
    known = predictions_of(measured)
    catalog, seed = measured.plan.catalog, measured.study.seed
    found: list[Expected | None] = []
    for name, config in arms.items():
        if name not in known:
            found.append(None)
            continue
        own = known[name]
        if config.measure.probe.size > MOST_SAMPLES:  # an inspection looks at the first samples only
            fewer = config.measure.probe.model_copy(update={"size": MOST_SAMPLES})
            smaller = config.model_copy(update={"measure": config.measure.model_copy(update={"probe": fewer})})
            own = predict_groups({name: smaller}, catalog, seed).get(name, own)
        skip: Skip = config.model.skip.build(catalog)
        forecasts = own.forecasts
        entering = _entering(own, config, skip)
        found.append(Expected(forecasts.get("delta_rms", {}), entering, forecasts.get("grad_rms", {})))
    return tuple(found)


def theory_lines(
    expected: tuple[Expected | None, ...], read: Callable[[Expected], Forecasts], layers: tuple[int, ...]
) -> tuple[TheoryLine, ...]:
    """The lines of one panel; `layers` is the number of places of each arm."""
    found = []
    for arm, (own, count) in enumerate(zip(expected, layers, strict=False)):
        forecasts = {} if own is None else {k: v for k, v in read(own).items() if v.center > 0}
        if forecasts:
            rows = [forecasts.get(layer) for layer in range(1, count + 1)]
            center, low, high = (
                tuple(None if one is None else float(f"{getattr(one, edge):.4g}") for one in rows)
                for edge in ("center", "low", "high")
            )
            found.append(TheoryLine(arm, center, low, high))
    return tuple(found)


def _entering(prediction: Prediction, config: Config, skip: Skip) -> Forecasts:
    """Root mean square of what each matrix multiplies: what left the layer before, or the function in front of it."""
    stream, post = _root_mean_squares(prediction, "stream"), _root_mean_squares(prediction, "post")
    first = 2 if config.model.stem == "linear" else 1
    found = {}
    for layer in prediction.layers:
        number = layer.number
        if skip.place == "before" and first <= number <= config.model.depth:
            one = post.get(number)
        elif number == 1:
            one = Forecast(sqrt(prediction.inputs["second_moment"]), 0.0, "exact")
        else:
            one = stream.get(number - 1) or post.get(number - 1)
        if one is not None:
            found[number] = one
    return found


def _root_mean_squares(prediction: Prediction, place: str) -> dict[int, Forecast]:
    """√(std² + mean²) by layer, where the mean over units is itself spread over seeds."""
    stds, means = (prediction.forecasts.get(f"activation_{what}.{place}", {}) for what in ("std", "mean"))
    found = {}
    for number, std in stds.items():
        mean = means.get(number)
        if mean is not None:
            drift = max(mean.spread**2 - (mean.center * std.spread) ** 2, 0.0)  # the rest is the spread of the size
            found[number] = Forecast(sqrt(std.center**2 + mean.center**2 + drift), std.spread, std.kind)
    return found
