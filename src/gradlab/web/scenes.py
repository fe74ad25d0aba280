"""What can be seen of a task: the decision in the plane, or digits with their answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from base64 import b64encode
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.trials.setup import Setup
from gradlab.web.layers import Inside

Array = NDArray[Any]
CELLS, MOST_POINTS, DIGITS = 40, 400, 10
"""Cells along each side of a decision surface; points and digits shown."""
TESTED, TESTED_NUMBERS = 300, 128_000
"""Samples on which accuracy is estimated, at most, and the numbers in all of them: 163 digits."""
PIXELS = 28


class Scene(ABC):
    """Everything of a task that stays, and what each network makes of it at a moment."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """What stays: points, pixels, true answers."""

    @property
    @abstractmethod
    def inputs(self) -> Array:
        """The samples for which a network is asked, (n, input width)."""

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
        self._grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2).astype(setup.dtype)

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

    @property
    def inputs(self) -> Array:
        """The centers of the cells."""
        return self._grid

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
        self._inputs = data.gather(rows, setup.dtype)[0]

    def to_json(self) -> dict[str, Any]:
        """Pixels as bytes, one digit after the other, and the true classes."""
        pixels = np.ascontiguousarray(self._pixels, np.uint8)
        return {
            "kind": "digits",
            "pixels": b64encode(pixels.tobytes()).decode(),
            "labels": [int(label) for label in self._labels],
        }

    @property
    def inputs(self) -> Array:
        """The digits."""
        return self._inputs

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


class Asked:
    """The samples for which both networks are asked in every frame: those of the scene, and some held-out ones."""

    def __init__(self, setup: Setup, scene: Scene | None) -> None:
        data, self._scene = setup.dataset, scene
        held = data.test if len(data.test) else data.validation if len(data.validation) else data.train
        tested = min(TESTED, max(TESTED_NUMBERS // data.input_width, 1))
        x, self._labels = data.gather(held[:tested], setup.dtype)
        self._shown = 0 if scene is None else len(scene.inputs)
        self._inputs = x if scene is None else np.concatenate([scene.inputs, x])
        self._classes = data.classes

    def ask(self, network: Inside) -> dict[str, Any]:
        """Accuracy on the held-out samples (training samples where there are none), and what the scene shows.

        Accuracy is None for a regression, which is not asked at all.
        """
        if self._classes is None:
            return {"accuracy": None}
        outputs = network.answer(self._inputs)
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
