"""Measured before training against what theory predicts: layer by layer, with an interval, and where they disagree."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log, sqrt

import numpy as np

from gradlab.analysis.measured import Measured
from gradlab.spec.config import Config, Taper
from gradlab.spec.naming import say_inside
from gradlab.theory.predicting import predict_groups
from gradlab.theory.prediction import FACTOR, Forecast, Kind, Prediction
from gradlab.words import bracket, rounded

MEASURES = ("delta_l2", "activation_std.pre", "activation_std.post", "activation_std.stream", "grad_l2")
"""Measures that a report holds against theory, the most telling first."""
SLIGHT = 0.05
"""A deviation (of the logarithm) that is no discovery, even if it lies outside a narrow band."""
NARROWEST = 30
"""Units below which the first correction in 1/width is no longer small."""
MOST_GROUPS = 100
"""A larger study is not predicted unasked."""


@dataclass(frozen=True)
class Agreement:
    """A measure of a group before training: measured/predicted, over all layers together and layer by layer."""

    group: str
    measure: str
    kind: Kind
    ratio: float
    """Geometric mean over seeds and layers of measured/predicted."""
    low: float
    high: float
    """95 % interval over seeds (t of the logarithm); equal to the ratio with one seed."""
    outside: tuple[int, ...]
    """Layers whose median over seeds lies outside the band."""
    layers: int
    change_measured: float
    """First layer over last layer, measured (geometric mean over seeds)."""
    change_predicted: float
    doubt: str = ""
    """Why the band need not hold in this network; empty where it should."""

    @property
    def agrees(self) -> bool:
        """Whether at most one layer in ten lies outside the band: one in twenty would by chance."""
        return len(self.outside) <= max(1, self.layers // 10)


def predictions_of(measured: Measured) -> dict[str, Prediction]:
    """What theory says of the plan's groups; nothing of user code."""
    found: dict[str, Prediction] = measured.remember("theory", _predict)
    return found


def _predict(measured: Measured) -> dict[str, Prediction]:
    plan = measured.plan
    seed = getattr(plan.study, "seed", None)
    if plan.own_code or len(plan.groups) > MOST_GROUPS or not isinstance(seed, int):
        return {}
    if not plan.catalog.executed:  # the user's parts came with the run, and are not executed
        return {}
    configs = {planned.group.name: getattr(planned.group, "config", None) for planned in plan.groups}
    known = {name: config for name, config in configs.items() if isinstance(config, Config)}
    return predict_groups(known, plan.catalog, seed)


def agreements(measured: Measured) -> list[Agreement]:
    """Every group and measure that has both a prediction and numbers from before training."""
    found: list[Agreement] = measured.remember("agreements", _compare)
    return found


def _compare(measured: Measured) -> list[Agreement]:
    if not any(measure in measured.measures for measure in MEASURES):
        return []
    there = [measure for measure in MEASURES if measure in measured.measures]
    found = [
        _agreement(measured, group, measure, prediction)
        for group, prediction in predictions_of(measured).items()
        for measure in there
    ]
    return [one for one in found if one is not None]


def _agreement(measured: Measured, group: str, measure: str, prediction: Prediction) -> Agreement | None:
    if 0 not in measured.moments(group):
        return None
    profile = measured.profile(measure, group, 0)
    forecasts = [prediction.forecast(measure, int(layer)) for layer in profile.layers]
    if profile.values.size == 0:
        return None
    logs, outside, kinds, ends = [], [], [], []
    for place, (layer, forecast) in enumerate(zip(profile.layers, forecasts, strict=True)):
        values = profile.values[:, place]
        values = values[np.isfinite(values) & (values > 0)]
        if forecast is None or forecast.center <= 0 or len(values) != len(profile.values):
            continue
        own = np.log(values)
        logs.append(own - log(forecast.center))
        ends.append((float(own.mean()), log(forecast.center)))
        kinds.append(forecast.kind)
        if not within(forecast, exp(float(np.median(own)))):
            outside.append(int(layer))
    if len(logs) < 2:
        return None
    by_seed = np.mean(np.array(logs), 0)
    mean = float(by_seed.mean())
    half = _half_width(by_seed)
    return Agreement(
        group,
        measure,
        max(set(kinds), key=kinds.count),
        exp(mean),
        exp(mean - half),
        exp(mean + half),
        tuple(outside),
        len(logs),
        exp(min(ends[0][0] - ends[-1][0], 700)),
        exp(min(ends[0][1] - ends[-1][1], 700)),
        _doubt(measured.entries[group].network),
    )


def _doubt(config: Config | None) -> str:
    """Why the band of theory, which is of first order in 1/width, need not hold (docs/theory.md)."""
    if config is None:
        return ""
    model = config.model
    widths = model.widths.values(model.depth) if isinstance(model.widths, Taper) else model.widths
    width = min(widths or (model.width,))
    if model.depth > width:
        return f"it is deeper ({model.depth} layers) than it is wide ({width} units)"
    return f"{width} units are fewer than the {NARROWEST} that it asks for" if width < NARROWEST else ""


def within(forecast: Forecast, value: float) -> bool:
    """Whether a value lies in the band; of an order of magnitude, within a factor 2 of it."""
    slack = FACTOR if forecast.kind == "order" else 1.0
    if forecast.signed:
        return forecast.low <= value <= forecast.high
    return forecast.low / slack * (1 - 1e-3) <= value <= forecast.high * slack * (1 + 1e-3)


def _half_width(values: np.ndarray) -> float:
    if len(values) < 2:
        return 0.0
    from scipy.special import stdtrit  # scipy.stats takes a second to import

    return float(stdtrit(len(values) - 1, 0.975)) * float(values.std(ddof=1)) / sqrt(len(values))


def theory_sentence(measured: Measured) -> str:
    """What theory expected of δ before training, and whether it came; empty where nothing can be said."""
    found = [one for one in agreements(measured) if one.measure == MEASURES[0]]
    if not found:
        return ""
    off = sorted((one for one in agreements(measured) if not one.agrees), key=lambda one: one.doubt != "")
    if not off:
        worst = max(found, key=lambda one: abs(log(one.ratio)))
        place = say_inside(measured.names, worst.group)
        begin = "Before training, signal and δ are where theory puts them"
        if len(found) == 1:
            return f"{begin}: measured/predicted is {_say_ratio(worst)} for ‖δ‖ {place}."
        return f"{begin}; the largest deviation is that of ‖δ‖ {place}, {_say_ratio(worst)} of what is predicted."
    one = off[0]
    label, place = measured.metric(one.measure).label, say_inside(measured.names, one.group)
    outside = f"{len(one.outside)} of {one.layers} layers lie outside its 95 % band"
    if abs(log(one.ratio)) < SLIGHT:
        return f"Before training, the {label} {place} is {_say_ratio(one)} of what theory predicts, but {outside}."
    meaning = (
        f"Theory's band need not hold in this network: {one.doubt}" if one.doubt else "That is a discovery or a bug"
    )
    return (
        f"Before training, the {label} is not where theory puts it {place}: {outside} (measured/predicted "
        f"{_say_ratio(one)}). {meaning}."
    )


def _say_ratio(one: Agreement) -> str:
    sure = f" {bracket(one.low, one.high)}" if one.low < one.high else ""
    return f"{rounded(one.ratio)}{sure}"
