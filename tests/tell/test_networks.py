"""The sentences about one network of the lab, each from the numbers that it tells: live, and recorded."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import gradlab
from gradlab.facts import Gain
from gradlab.spec.config import Config
from gradlab.tell.networks import Course, Layers, describe_network, diagnose_course
from gradlab.testing.base import small_tree

EVEN, ALIVE = [1.0] * 11, [0.0] * 11
VANISHED = [4.5**-layer for layer in range(11)]


def config(**changes: Any) -> Config:
    overrides = {name.replace("__", "."): value for name, value in changes.items()}
    return gradlab.plan(small_tree(), overrides=overrides).groups[0].config


LIVE = [
    ({}, "ready", "Neither the signal nor δ vanishes or explodes over the layers."),
    ({"losses": [2.0, 1.0]}, "learning", "The loss fell from 2 to 1.5."),
    ({"losses": [2.0, 2.0]}, "stuck", "The loss stays at 2."),
    ({"losses": [1.0, 3.0]}, "stuck", "The loss rose from 1 to 2."),
    ({"losses": [4.0, 2.0], "guessing": 3.0}, "stuck", "The loss fell from 4 to 3, the loss of guessing."),
    (
        {"delta": VANISHED[::-1]},
        "vanishing_gradients",
        "The backprop signal δ loses a factor of 4.5 per layer (3.4 × 10⁶ over 10 layers) on its way back to the first "
        "layer.",
    ),
    (
        {"signal": VANISHED[::-1], "losses": [2.0, 2.0]},
        "exploding_signal",
        "The loss stays at 2. The signal gains a factor of 4.5 per layer (3.4 × 10⁶ over 10 layers) on its way to the "
        "last layer.",
    ),
    (
        {"dead": [0.6] * 11},
        "dead_units",
        "60 % of its units are dead: no gradient reaches them anymore.",
    ),
    (
        {"dead": [*ALIVE[:3], 1.0, *ALIVE[4:]]},
        "dead_units",
        "9 % of its units are dead, and in layer 4 all of them: no gradient gets through.",
    ),
    (
        {"losses": [2.0, 1.0, 70.0, math.nan], "diverged": 4, "signal": [*EVEN[:4], *[math.inf] * 7]},
        "diverged",
        "Diverged at step 4: the loss is no longer a number. The activations overflow in layer 5 of 11. Within 2 steps "
        "the loss rose from 1 to 70: a learning rate of 0.01 is too high for this network.",
    ),
    (
        {"losses": [math.nan], "diverged": 0, "signal": [math.inf] * 11},
        "diverged",
        "It started that way: the initial weights are too large. A smaller init scale or a norm would fix it.",
    ),
]


@pytest.mark.parametrize(("given", "code", "sentence"), LIVE)
def test_a_network_is_described_after_a_step(given: Mapping[str, Any], code: str, sentence: str) -> None:
    layers = Layers(given.get("signal", EVEN), given.get("delta", EVEN), EVEN, given.get("dead", ALIVE))
    losses = np.array(given.get("losses", []), float)
    fact = describe_network(config(), losses, given.get("diverged"), layers, given.get("guessing", math.inf))
    assert fact.code == code
    assert sentence in fact.words


VANISHING, GROWING = Gain(1 / 4.6, 2.9e-13, 19), Gain(2.0, 5e5, 19)
RECORDED = [
    (
        {"model__init__scale": "1/sqrt(depth)"},
        Course(VANISHING, VANISHING, (1.0, 1.0), 500, 0.0),
        "vanishing_gradients",
        "The plain network: before training, the signal loses a factor of 4.6 per layer (3.4 × 10¹² over 19 layers) "
        "and δ, on its way back, loses a factor of 4.6 per layer (3.4 × 10¹² over 19 layers). The initial weights (He "
        "init at scale 1/√depth) cause it; an identity skip or scale 1 would prevent it. In 500 steps, the loss stays "
        "at 1.",
    ),
    (
        {},
        Course(GROWING, None, (1.0, math.nan), 500, 0.0),
        "exploding_signal",
        "The plain network: before training, the signal gains a factor of 2 per layer (500,000 over 19 layers). The "
        "initial weights (He init) cause it; smaller weights or a norm would prevent it. Its loss is no longer a "
        "number at the end.",
    ),
    (
        {},
        Course(Gain(1.0, 1.0, 3), None, (2.0, 0.5), 1, 0.95),
        "dead_units",
        "The plain network: before training, the signal keeps its size. At the end, 95 % of its units are dead. In 1 "
        "step, the loss falls from 2 to 0.5.",
    ),
    (
        {},
        Course(None, None, (2.0, 2.0), 0, 0.0),
        "healthy",
        "The plain network: before training, there are too few layers to tell.",
    ),
]


@pytest.mark.parametrize(("changes", "course", "code", "words"), RECORDED)
def test_a_recorded_network_is_diagnosed(changes: dict[str, Any], course: Course, code: str, words: str) -> None:
    fact = diagnose_course("the plain network", config(**changes), course)
    assert (fact.code, fact.subject) == (code, "the plain network")
    assert fact.words == words
