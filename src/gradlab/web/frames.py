"""What a page is told of its two networks: frames many times a second; audit and theory once.

The layer view has signal, δ, weight gradient and dead units of every layer, as the lab's own probes measure them. A
frame is made beside the training, so only what the page draws is computed, on windows that are made once; `tests/web`
holds every number against the probes.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import Sequence
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from gradlab.audits.audit import Audit
from gradlab.audits.study import audit_plan
from gradlab.errors import GradlabError
from gradlab.network.mlp import Layer, Record
from gradlab.plans.plan import Plan
from gradlab.probes import rms
from gradlab.report.predicted import predict_plan
from gradlab.tell.networks import Layers, describe_network, recent_loss
from gradlab.theory.prediction import Forecast, Prediction
from gradlab.trials.setup import Setup
from gradlab.web.pair import ArmState, PairState
from gradlab.web.settings import Settings, call_setting, name_arms
from gradlab.words import capital, join

Array = NDArray[Any]


class NetworkView:
    """One network as it is looked at: its own copy of the parameters, and windows on it. Never the trainer's arrays."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._theta, gradient = np.array(setup.theta), np.zeros_like(setup.theta)
        self._p, self._g = setup.mlp.layout.windows(self._theta), setup.mlp.layout.windows(gradient)
        self._state: ArmState | None = None

    def take(self, state: ArmState) -> None:
        """Look at this state from now on."""
        self._state = state
        np.copyto(self._theta, state.theta)

    def measure(self) -> Layers:
        """One forward and one backward pass on the probe batch of the trial; nothing is changed."""
        setup, mlp = self._setup, self._setup.mlp
        with np.errstate(all="ignore"):
            output, tape = mlp.forward(self._p, setup.probe_x, self._running)
            mlp.backward(self._p, tape, setup.loss.value_and_gradient(output, setup.probe_y)[1], self._g)
            records = tape.records
            return Layers(
                [rms(record.post if record.stream is None else record.stream) for record in records],
                [rms(record.delta) for record in records if record.delta is not None],
                [rms(gradient.weight) for gradient in self._g.layers],
                [_dead_share(layer, record) for layer, record in zip(mlp.layers, records, strict=True)],
            )

    def predict(self, x: Array) -> Array:
        """The outputs for samples, in evaluation mode."""
        with np.errstate(all="ignore"):
            output: Array = self._setup.mlp.forward(self._p, x, self._running, training=False)[0]
        return output if self._setup.dataset.classes is None else self._setup.loss.class_outputs(output)

    @property
    def _running(self) -> list[Any]:
        assert self._state is not None, "there is nothing to look at yet"
        return list(self._state.running)


def _dead_share(layer: Layer, record: Record) -> float:
    return float((layer.activation.slope(record.pre, record.post) == 0).all(0).mean())


# What can be seen of a task: the decision in the plane, or digits with their answers.

CELLS, MOST_POINTS, DIGITS = 40, 400, 10
"""Cells along each side of a decision surface; points and digits shown."""
TESTED, TESTED_NUMBERS = 300, 128_000
"""Samples on which accuracy is estimated, at most, and the numbers in all of them: 163 digits."""
PIXELS = 28


class Scene(ABC):
    """Everything of a task that stays, and what each network makes of it at a moment."""

    inputs: Array
    """The samples for which a network is asked, (n, input width)."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """What stays: points, pixels, true answers."""

    @abstractmethod
    def show(self, outputs: Array) -> dict[str, Any]:
        """What a network answers now; `outputs` are those for `inputs`."""


class Plane(Scene):
    """Samples of two numbers: the answer everywhere, as a surface over the points."""

    def __init__(self, setup: Setup) -> None:
        data = setup.dataset
        rows = data.train[:MOST_POINTS]
        self._points, self._labels = data.scaled(data.inputs[rows], np.float64), data.targets[rows]
        self._classes = data.classes or 2
        low, high = self._points.min(0), self._points.max(0)
        margin = 0.08 * np.maximum(high - low, 1e-9)
        self._low, self._high = low - margin, high + margin
        centers = (np.arange(CELLS) + 0.5) / CELLS
        x = self._low[0] + centers * (self._high[0] - self._low[0])
        y = self._high[1] - centers * (self._high[1] - self._low[1])  # the first row is the upper one
        # a network is asked at the centers of the cells
        self.inputs = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2).astype(setup.dtype)

    def to_json(self) -> dict[str, Any]:
        """Points with their classes, in the unit square of the picture."""
        placed = (self._points - self._low) / (self._high - self._low)
        return {
            "kind": "plane",
            "cells": CELLS,
            "classes": self._classes,
            "points": [[round(float(x), 4), round(float(1 - y), 4)] for x, y in placed],
            "labels": [int(label) for label in self._labels],
        }

    def show(self, outputs: Array) -> dict[str, Any]:
        """Of two classes the probability of the second, as bytes; of more the most probable one."""
        chances = _chances(outputs)
        cells = 255 * chances[:, 1] if self._classes == 2 else chances.argmax(1)
        return {"surface": b64encode(np.nan_to_num(cells).round().astype(np.uint8).tobytes()).decode()}


class Digits(Scene):
    """Some test digits, each with what the network takes it for."""

    def __init__(self, setup: Setup) -> None:
        data = setup.dataset
        rows = data.test[:DIGITS]
        self._pixels, self._labels = data.inputs[rows], data.targets[rows]
        self.inputs = data.gather(rows, setup.dtype)[0]

    def to_json(self) -> dict[str, Any]:
        """Pixels as bytes, one digit after the other, and the true classes."""
        pixels = np.ascontiguousarray(self._pixels, np.uint8)
        return {
            "kind": "digits",
            "pixels": b64encode(pixels.tobytes()).decode(),
            "labels": [int(label) for label in self._labels],
        }

    def show(self, outputs: Array) -> dict[str, Any]:
        """The class of each digit and how sure the network is, in percent."""
        chances = np.nan_to_num(_chances(outputs))
        return {"answers": [[int(row.argmax()), round(100 * float(row.max()))] for row in chances]}


def make_scene(setup: Setup) -> Scene | None:
    """The scene of a task that has one."""
    data = setup.dataset
    if data.classes is None:
        return None
    if data.input_width == 2:
        return Plane(setup)
    return Digits(setup) if setup.trial.config.data.task == "mnist" and len(data.test) >= DIGITS else None


class EvaluatedSamples:
    """The samples for which both networks are asked in every frame: those of the scene, and some held-out ones."""

    def __init__(self, setup: Setup, scene: Scene | None) -> None:
        data, self._scene = setup.dataset, scene
        held = data.test if len(data.test) else data.validation if len(data.validation) else data.train
        tested = min(TESTED, max(TESTED_NUMBERS // data.input_width, 1))
        x, self._labels = data.gather(held[:tested], setup.dtype)
        self._shown = 0 if scene is None else len(scene.inputs)
        self._inputs = x if scene is None else np.concatenate([scene.inputs, x])
        self._classes = data.classes

    def evaluate(self, network: NetworkView) -> dict[str, Any]:
        """Accuracy on the held-out samples (training samples where there are none), and what the scene shows.

        Accuracy is None for a regression, which is not asked at all.
        """
        if self._classes is None:
            return {"accuracy": None}
        outputs = network.predict(self._inputs)
        accuracy = float(np.mean(outputs[self._shown :].argmax(1) == self._labels))
        shown = {} if self._scene is None else self._scene.show(outputs[: self._shown])
        return {"accuracy": round(accuracy, 4), **shown}


def _chances(outputs: Array) -> Array:
    """Softmax of the outputs, (n, classes)."""
    exact = outputs.astype(np.float64)
    with np.errstate(all="ignore"):
        powers = np.exp(exact - exact.max(1, keepdims=True))
        chances: Array = powers / powers.sum(1, keepdims=True)
    return chances


# What happens in a network right now.

STATES = {
    "ready": "ready",
    "learning": "learning",
    "stuck": "stuck",
    "vanishing_gradients": "vanishing",
    "vanishing_signal": "vanishing",
    "exploding_gradients": "exploding",
    "exploding_signal": "exploding",
    "dead_units": "dying",
    "diverged": "diverged",
}
"""Code of a fact -> the word that the page shows for it."""


def guessing_loss(setup: Setup) -> float:
    """The loss of the best constant answer on the training samples: guessing among classes, or their mean."""
    data = setup.dataset
    if data.classes is not None:
        return math.log(data.classes)
    targets = data.typed(data.targets[data.train], np.float64)
    return float(setup.loss.value(np.broadcast_to(targets.mean(0), targets.shape), targets))


# A frame: everything that the page shows of both networks after a step, as one message.
#
# Every frame is complete, so that a page that missed some needs only the newest.

MOST_LOSSES = 320
"""Points of a loss curve in one message."""


class Curve:
    """A loss curve as means of equal stretches; what was computed for the frame before is kept."""

    def __init__(self) -> None:
        self._every, self._means = 1, list[float | None]()

    def thin(self, losses: Array) -> dict[str, Any]:
        """Stretches of 1, 2, 4 … steps, so long that they fit in a message: {"every": k, "y": […]}."""
        every = 2 ** max(0, math.ceil(math.log2(max(len(losses), 1) / MOST_LOSSES)))
        whole, rest = divmod(len(losses), every)
        if every != self._every or whole < len(self._means):
            self._every, self._means = every, []
        new = losses[len(self._means) * every : whole * every]
        with np.errstate(all="ignore"):
            self._means += [_number(mean) for mean in new.reshape(-1, every).mean(1).tolist()]
            last = [_number(float(losses[-rest:].mean()))] if rest else []
        return {"every": every, "y": self._means + last}


class Stage:
    """What stays the same between two restarts: the two networks as they are looked at, and the scene."""

    def __init__(self, settings: Settings, plan: Plan, setups: Sequence[Setup]) -> None:
        self._settings, self._plan, self._setups = settings, plan, setups
        self._networks, self._curves = [NetworkView(setup) for setup in setups], [Curve() for _ in setups]
        self.scene = make_scene(setups[0])
        self._samples = EvaluatedSamples(setups[0], self.scene)
        self._guessing = guessing_loss(setups[0])

    def describe(self) -> dict[str, Any]:
        """What a page is told once per restart."""
        groups = self._plan.groups
        models = [planned.config.model for planned in groups]
        skips = [setup.mlp.skip for setup in self._setups]
        return {
            "settings": self._settings.model_dump(mode="json"),
            "names": list(name_arms(self._settings, self._plan)),
            "steps": groups[0].cost.steps,
            "layers": [planned.cost.layers for planned in groups],
            "parameters": [planned.cost.parameters for planned in groups],
            "stated": groups[0].stated,
            "engine": [planned.engine for planned in groups],
            "formulas": [skip.written(model.width, model.depth) for skip, model in zip(skips, models, strict=True)],
            "scene": None if self.scene is None else self.scene.to_json(),
        }

    def frame(self, state: PairState) -> dict[str, Any]:
        """What a page is told of a moment."""
        return {"step": state.step, "arms": [self._show(number, arm) for number, arm in enumerate(state.arms)]}

    def _show(self, number: int, state: ArmState) -> dict[str, Any]:
        network = self._networks[number]
        network.take(state)
        layers = network.measure()
        fact = describe_network(
            self._setups[number].trial.config, state.losses, state.diverged_step, layers, self._guessing
        )
        return {
            "loss": None if (loss := recent_loss(state.losses)) is None else _number(loss),
            "curve": self._curves[number].thin(state.losses),
            "layers": {row: list(map(_number, values)) for row, values in layers._asdict().items()},
            "state": STATES[fact.code],
            "code": fact.code,
            "words": fact.words,
            "severity": fact.severity,
            "numbers": {name: _number(value) for name, value in fact.numbers.items()},
            "ended": state.finished,
            "digest": state.digest,
            **self._samples.evaluate(network),
        }


def _number(value: float) -> float | None:
    """Four digits, which is what a picture can show; None where it is not finite."""
    return float(f"{value:.4g}") if math.isfinite(value) else None


# The audit of a page in one line: do the two networks differ only in the factor?


def audit_page(settings: Settings, plan: Plan) -> dict[str, Any]:
    """What the page shows above everything else."""
    audit = audit_plan(plan)
    state, line = describe_line(settings, audit)
    return {
        "state": state,
        "line": line,
        "details": [*map(_sentence, audit.faults), *(_sentence(words) for words in audit.caveats)],
        "only": audit.only_difference,
    }


def describe_line(settings: Settings, audit: Audit) -> tuple[str, str]:
    """`fair`, `mixed`, `unfair` or `same`, and the sentence that says so."""
    differing = settings.differing
    others = [name for name in differing if name != settings.factor]
    if not audit.fair and settings.factor != "all":
        besides = _call_settings(others) if others else "; ".join(audit.undeclared)
        factor = call_setting(settings.factor)
        if settings.factor in differing:
            return "unfair", f"Not fair: besides the {factor} they differ in {besides}."
        return "unfair", f"Not fair: they should differ in the {factor}, but they differ in {besides}."
    if not audit.fair:
        return "unfair", f"Not fair: they differ in {'; '.join(audit.undeclared)}."
    if audit.identical or not differing:
        return "same", "The two are identical: their curves coincide."
    if len(differing) > 1:
        return "mixed", f"They differ in {_call_settings(differing)}, so no difference between them has a single cause."
    return "fair", f"Fair: they differ only in the {call_setting(differing[0])}."


def _call_settings(names: Sequence[str]) -> str:
    return join([f"the {call_setting(name)}" for name in names])


def _sentence(words: str) -> str:
    return f"{capital(words)}{'' if words.endswith('.') else '.'}"


# What theory expects of the two networks before training, with its band over seeds, for the layer view.

Numbers = list[float | None]
"""Layer by layer; None where a layer has no forecast."""
PLACES = ("stream", "post")
"""Where the signal is read: in the residual stream, where there is one."""


class Expected(TypedDict):
    """One row of the layer view: the line, the band that holds 95 % of the seeds, and how it was found."""

    center: Numbers
    low: Numbers
    high: Numbers
    kind: str
    """`exact`, `order` (of magnitude only) or `simulated`; the weakest of all layers."""


def predict_layers(plan: Plan) -> tuple[dict[str, Expected], ...] | None:
    """The expected rows of each arm (`signal`, `delta`, `gradient`); None where theory does not cover the networks."""
    try:
        predictions = predict_plan(plan)
        return tuple(_read_rows(predictions[planned.group.name], planned.cost.layers) for planned in plan.groups)
    except GradlabError:
        return None


def _read_rows(prediction: Prediction, layers: int) -> dict[str, Expected]:
    """The rows as `NetworkView.measure` gives them."""

    def find(measure: str) -> list[Forecast | None]:
        by_layer = prediction.forecasts.get(measure, {})
        return [by_layer.get(number) for number in range(1, layers + 1)]

    signal: list[Forecast | None] = [None] * layers
    for place in PLACES:
        means, deviations = (find(f"activation_{what}.{place}") for what in ("mean", "std"))
        for index, (mean, std) in enumerate(zip(means, deviations, strict=True)):
            if signal[index] is None and mean is not None and std is not None:
                # the size differs between seeds as the standard deviation does
                signal[index] = Forecast(math.hypot(mean.center, std.center), std.spread, std.kind)
    return {"signal": _expect(signal), "delta": _expect(find("delta_rms")), "gradient": _expect(find("grad_rms"))}


def _expect(forecasts: list[Forecast | None]) -> Expected:
    known = [one if one is not None and math.isfinite(one.center) else None for one in forecasts]
    kinds = {one.kind for one in known if one is not None}
    return {
        "center": [None if one is None else _number(one.center) for one in known],
        "low": [None if one is None else _number(one.low) for one in known],
        "high": [None if one is None else _number(one.high) for one in known],
        "kind": next((kind for kind in ("order", "simulated") if kind in kinds), "exact"),
    }
