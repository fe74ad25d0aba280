"""The numbers of the write-ups, reproduced by the reference engine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import gradlab
from gradlab.engines.reference import Reference
from gradlab.trials import prepare

WITH = [0.010994031, 0.006011885, 0.011236266, 0.008820828, 0.103108749]
WITHOUT = [4.809e-5, 1.0998e-5, 1.6676e-5, 3.2153e-5, 1.3453e-4]


@pytest.mark.parametrize(("arm", "published", "rel"), [("residual", WITH, 2e-6), ("plain", WITHOUT, None)])
def test_gradflow_columns_from_the_published_draw(arm: str, published: list[float], rel: float | None) -> None:
    """torch.manual_seed(123): the input first, then the layers, as the write-up draws them; to the published digits."""
    torch.manual_seed(123)
    x = torch.randn(1, 10).numpy()
    layers = [torch.nn.Linear(10, 10, bias=False) for _ in range(4)] + [torch.nn.Linear(10, 1, bias=False)]
    theta = np.concatenate([layer.weight.detach().numpy().T.ravel() for layer in layers])
    trial = next(trial for trial in gradlab.plan("gradflow", seeds=1).trials if trial.group == arm)
    setup = replace(prepare(trial), theta=theta, probe_x=x, probe_y=np.zeros((1, 1), np.float32))
    table = Reference().train(setup).layers
    means = [v for m, v in zip(table.measure, table.value, strict=True) if m == "grad_mean_abs"]
    for mean, value in zip(means, published, strict=True):
        digits = len(f"{value:e}".split("e")[0].rstrip("0").replace(".", ""))
        tolerance = rel * value if rel else 0.5001 * 10 ** (np.floor(np.log10(value)) - digits + 1)
        assert mean == pytest.approx(value, abs=tolerance)


@pytest.fixture(scope="module")
def identity() -> gradlab.Result:
    return gradlab.run("identity")


@pytest.mark.shipped
def test_identity_fair_version_over_ten_seeds(identity: gradlab.Result) -> None:
    measured = identity.measured
    assert measured.counts() == {"done": 20, "failed": 0, "diverged": 0}
    assert measured.summary("final_loss", "plain").mean == pytest.approx(0.333, abs=0.01)
    assert 10 <= measured.summary("initial_loss", "residual").mean <= 19
    assert measured.summary("final_loss", "residual").mean <= 0.07
    after = measured.profile("grad_l2", "plain", "end").values
    assert after[:, 0].mean() < 1e-13


@pytest.mark.shipped
def test_at_initialization_the_plain_nets_weight_gradient_is_flat_while_signal_and_delta_fall(
    identity: gradlab.Result,
) -> None:
    def slope(measure: str) -> float:
        """Factor per layer, from layer 2 to 19."""
        values = np.log(np.median(identity.measured.profile(measure, "plain", "start").values, 0))
        return float(np.exp(np.polyfit(np.arange(2, 20), values[1:19], 1)[0]))

    assert slope("grad_l2") == pytest.approx(1, abs=0.15)
    assert slope("delta_l2") == pytest.approx(4.47, rel=0.08)
    assert slope("activation_std.pre") == pytest.approx(1 / 4.47, rel=0.08)


@pytest.mark.shipped
def test_the_report_answers_the_question_and_shows_published_beside_measured(identity: gradlab.Result) -> None:
    report = identity.report()
    head = report.split("\n")[2]
    assert identity.story.answered.word == "Yes"
    assert head.startswith(f"**{identity.answer}")
    assert " 0.06" in head
    assert "5." in head
    assert "8.65e-19" in report
    assert "13.826" in report


def test_the_unscaled_residual_net_starts_above_ten_million() -> None:
    result = gradlab.run("identity", seeds=3, overrides={"model.init.scale": 1, "train.steps": 1})
    assert result.measured.summary("initial_loss", "residual").smallest > 1e7


def test_gradflow_over_draws_has_exact_zeros_and_the_largest_ratio_at_the_last_layer() -> None:
    result = gradlab.run("gradflow", seeds=400, overrides=["seed=0"])
    plain, residual = (result.measured.profile("grad_mean_abs", name, "start").values for name in ("plain", "residual"))
    zero = (plain == 0).all(1)
    assert 0 < zero.mean() < 0.03
    ratios = np.median(residual[~zero] / plain[~zero], axis=0)
    assert (ratios > 100).all()
    assert ratios.argmax() == 4
    assert "exact zeros" in result.report()
