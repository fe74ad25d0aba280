"""Why, in words: the line under an answer, the chain, and what a test of it showed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from sweeps import ended

from gradlab.analysis.estimate import Estimate
from gradlab.analysis.measured import Measured
from gradlab.analysis.why import Link, Why
from gradlab.spec.claims import At
from gradlab.tell.why import breaks_at, explain

TREE = {
    "base": {
        "data": {"task": "identity", "dim": 8, "samples": 16},
        "model": {"stem": "none", "head": "none", "depth": 12, "width": 8},
        "train": {"loss": "mse", "optimizer": "sgd", "lr": 0.1, "batch": 8, "steps": 0},
    },
    "factor": "model.skip",
    "arms": {"plain": {}, "residual": {"model.skip": "identity"}},
    "labels": {"plain": "the plain network", "residual": "the residual network"},
    "headline": {"metric": "final_loss"},
}


def given() -> Measured:
    return ended(TREE, "final_loss", {"plain": [0.3, 0.31, 0.32], "residual": [0.05, 0.06, 0.07]})


def estimate(value: float) -> Estimate:
    return Estimate(value, value * 0.9, value * 1.1, 10)


def link(stage: str, plain: float, residual: float, **more: object) -> Link:
    arms = {"plain": estimate(plain), "residual": estimate(residual)}
    kind = {"signal": "change", "delta": "change", "units": "share", "result": "result"}.get(stage, "size")
    layers = {"plain": 11, "residual": 11} if kind == "change" else {}
    breaks: Mapping[str, str] = {}
    made = Link(stage, "grad_l2", kind, arms, estimate(residual / plain), layers, "start", breaks)  # type: ignore[arg-type]
    return replace(made, **more)  # type: ignore[arg-type]


VANISHES = link("signal", 0.25**11, 1.05**11, breaks={"plain": "vanishes"})
DELTA = link("delta", 0.5**11, 1.1**11, breaks={"plain": "vanishes"})
GRADIENT = link("gradient", 2e-9, 0.5, breaks={"plain": "small"})
BASE = Why("vanishing_signal", "plain", "residual", ("model.skip",), (), {}, "final_loss", At())


def test_because_names_the_mechanism_with_its_interval_and_what_the_factor_does_about_it() -> None:
    found = replace(BASE, links=(VANISHES, DELTA, GRADIENT), controlled="identity-controlled")
    assert explain(given(), found).because == (
        "Because in the plain network the signal falls 4× per layer (95 %: 3.97 to 4.04, 10 seeds) and δ, the error "
        "signal on its way back, falls 2× per layer: before training, layer 1 gets a gradient of 2 × 10⁻⁹, against "
        "0.5 in the residual network, where the `x +` carries both past every layer. Measured before training, at this "
        "initialization; whether it is the cause is what `gradlab run identity-controlled` tests."
    )


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("no_mechanism", "The numbers do not say why: gradient of the plain network and the residual network are"),
        ("contrary", "The numbers do not say why: in the plain network, which ends better,"),
        ("no_difference", "No difference in loss is shown yet between the plain network and the residual network, so"),
        ("not_measured", "Why was not measured: `measure: {layers: [start, end]}` looks into the layers."),
    ],
)
def test_where_the_numbers_show_no_mechanism_the_line_says_so(code: str, words: str) -> None:
    told = explain(given(), replace(BASE, code=code, links=(link("gradient", 0.1, 0.2),)))  # type: ignore[arg-type]
    assert told.because.startswith(words)
    assert "Because" not in told.because
    assert not breaks_at(told)


def test_the_chain_has_a_cell_per_arm_and_says_where_it_breaks_first() -> None:
    told = explain(given(), replace(BASE, links=(VANISHES, GRADIENT, link("result", 0.3, 0.06))))
    assert [(step.title, step.cells[0], step.breaks) for step in told.chain[1:]] == [
        ("signal", "falls 4× per layer, 4.2 × 10⁶× in all", (True, False)),
        ("gradient", "2 × 10⁻⁹", (True, False)),
        ("loss", "0.3000 [0.270, 0.330]", (False, False)),
    ]
    assert told.chain[0].title == "init"
    assert breaks_at(told) == "The plain network: the chain breaks at the signal; gradient follows from it."
    assert told.fact.code == "vanishing_signal"
    assert told.fact.numbers["gradient_affected"] == 2e-9
