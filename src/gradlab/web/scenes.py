"""What can be seen of a task: the decision in the plane, or digits with their answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from base64 import b64encode
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.trials.setup import Setup
from gradlab.web.pair import ArmState

Array = NDArray[Any]
CELLS, MOST_POINTS, DIGITS, TESTED = 40, 400, 10, 300
"""Cells along each side of a decision surface; points and digits shown; samples on which accuracy is estimated."""
PIXELS = 28


class Scene(ABC):
    """Everything of a task that stays, and what each network makes of it at a moment."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """What stays: points, pixels, true answers."""

    @abstractmethod
    def show(self, setup: Setup, state: ArmState) -> dict[str, Any]:
        """What a network answers now."""


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
        self._grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)

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

    def show(self, setup: Setup, state: ArmState) -> dict[str, Any]:
        """Of two classes the probability of the second, as bytes; of more the most probable one."""
        chances = _chances(setup, state, self._grid.astype(setup.dtype))
        cells = 255 * chances[:, 1] if self._classes == 2 else chances.argmax(1)
        return {"surface": b64encode(np.nan_to_num(cells).round().astype(np.uint8).tobytes()).decode()}


class Digits(Scene):
    """Some test digits, each with what the network takes it for."""

    def __init__(self, setup: Setup) -> None:
        data = setup.dataset
        self._rows = data.test[:DIGITS]
        self._pixels, self._labels = data.inputs[self._rows], data.targets[self._rows]

    def to_json(self) -> dict[str, Any]:
        """Pixels as bytes, one digit after the other, and the true classes."""
        pixels = np.ascontiguousarray(self._pixels, np.uint8)
        return {
            "kind": "digits",
            "pixels": b64encode(pixels.tobytes()).decode(),
            "labels": [int(label) for label in self._labels],
        }

    def show(self, setup: Setup, state: ArmState) -> dict[str, Any]:
        """The class of each digit and how sure the network is, in percent."""
        chances = np.nan_to_num(_chances(setup, state, setup.dataset.gather(self._rows, setup.dtype)[0]))
        return {"answers": [[int(row.argmax()), round(100 * float(row.max()))] for row in chances]}


def make_scene(setup: Setup) -> Scene | None:
    """The scene of a task that has one."""
    data = setup.dataset
    if data.classes is None:
        return None
    if data.input_width == 2:
        return Plane(setup)
    return Digits(setup) if setup.trial.config.data.task == "mnist" and len(data.test) >= DIGITS else None


def estimate_accuracy(setup: Setup, state: ArmState) -> float | None:
    """Accuracy on some held-out samples (training samples where there are none); None for a regression."""
    data = setup.dataset
    if data.classes is None:
        return None
    held = data.test if len(data.test) else data.validation if len(data.validation) else data.train
    x, y = data.gather(held[:TESTED], setup.dtype)
    return float(np.mean(_outputs(setup, state, x).argmax(1) == y))


def _outputs(setup: Setup, state: ArmState, x: Array) -> Array:
    p = setup.mlp.layout.windows(state.theta)
    with np.errstate(all="ignore"):
        output: Array = setup.mlp.forward(p, x, list(state.running), training=False)[0]
    return output


def _chances(setup: Setup, state: ArmState, x: Array) -> Array:
    """Softmax of the outputs, (n, classes)."""
    output = _outputs(setup, state, x).astype(np.float64)
    with np.errstate(all="ignore"):
        powers = np.exp(output - output.max(1, keepdims=True))
        chances: Array = powers / powers.sum(1, keepdims=True)
    return chances
