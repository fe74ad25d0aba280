"""Expectations, fixed points and critical lines against known numbers."""

from __future__ import annotations

from math import pi, sqrt

import numpy as np
import pytest

from gradlab.network.activations import Activation, Gelu, Identity, LeakyRelu, Relu, Sigmoid, Silu, Tanh
from gradlab.theory.laws import Elementwise, expectation, law_of, nodes
from gradlab.theory.phase import (
    critical_weight,
    fixed_overlap,
    fixed_variance,
    moments_at,
    pair_slope,
    plain_phase,
)

AT_ONE = {  # M, V, D at q = 1
    Relu(): (0.39894, 0.5, 0.5),
    LeakyRelu(): (0.39495, 0.50005, 0.50005),
    Tanh(): (0.0, 0.39429, 0.46440),
    Gelu(): (0.28209, 0.42522, 0.45585),
    Silu(): (0.20662, 0.35578, 0.37948),
    Sigmoid(): (0.5, 0.29338, 0.04484),
}


@pytest.mark.parametrize("activation", AT_ONE, ids=lambda one: one.name)
def test_the_moments_at_variance_one_are_the_known_ones(activation: Activation) -> None:
    assert moments_at(Elementwise(activation), 1.0) == pytest.approx(AT_ONE[activation], abs=1e-5)
    law = law_of(Elementwise(activation), np.ones((1, 1)))
    found = (law.mean[0], law.second[0, 0], law.slope[0, 0])
    assert found == pytest.approx(AT_ONE[activation], abs=1e-5)


@pytest.mark.parametrize(("activation", "kappa"), [(Relu(), 5), (Identity(), 2), (Tanh(), 0.627), (Gelu(), 6.216)])
def test_the_spread_of_one_layer_is_the_known_one(activation: Activation, kappa: float) -> None:
    law = law_of(Elementwise(activation), np.ones((1, 1)))
    assert law.square[0, 0] / law.second[0, 0] ** 2 == pytest.approx(kappa, rel=1e-3)


@pytest.mark.parametrize("c", [-0.7, 0.0, 0.3, 0.9, 0.99])
@pytest.mark.parametrize("q", [0.04, 1.0, 30.0])
def test_relu_has_its_closed_forms_to_ten_digits(q: float, c: float) -> None:
    law = law_of(Elementwise(Relu()), q * np.array([[1.0, c], [c, 1.0]]))
    theta = np.arccos(c)
    assert law.mean[0] == pytest.approx(sqrt(q / (2 * pi)), rel=1e-10)
    assert law.second[0, 1] == pytest.approx(q * (sqrt(1 - c * c) + c * (pi - theta)) / (2 * pi), rel=1e-10)
    assert law.slope[0, 1] == pytest.approx((pi - theta) / (2 * pi), rel=1e-10)


def test_quadrature_has_no_trouble_with_a_kink_at_zero() -> None:
    places, _ = nodes()
    assert float(expectation(np.maximum(places, 0) ** 2)) == pytest.approx(0.5, abs=1e-12)


class Kinked(Activation):
    """An activation of the user's own."""

    name = "kinked"

    def forward(self, x):
        return np.where(x > 0, x, 0.2 * x)

    def slope(self, x, y):
        return np.where(x > 0, 1.0, 0.2)


@pytest.mark.parametrize("c", [-0.5, 0.2, 0.8])
def test_an_activation_of_the_users_own_gets_by_quadrature_what_closed_forms_give(c: float) -> None:
    covariance = 1.7 * np.array([[1.0, c], [c, 1.0]])
    own, known = (
        law_of(Elementwise(Kinked()), covariance),
        law_of(Elementwise(LeakyRelu(negative_slope=0.2)), covariance),
    )
    for name in ("mean", "second", "square", "inner", "inner2", "product"):
        assert np.allclose(getattr(own, name), getattr(known, name), rtol=2e-4), name
    assert np.allclose(own.slope, known.slope, rtol=2e-2)  # a jump converges slowly


@pytest.mark.parametrize(
    ("bias", "weight"), [(0.01, 1.424205), (0.05, 1.760955), (0.1, 1.986073), (0.2, 2.285152), (1, 3.443211)]
)
def test_tanh_is_critical_where_it_is_known_to_be(bias: float, weight: float) -> None:
    assert critical_weight(Elementwise(Tanh()), bias) == pytest.approx(weight, rel=1e-4)


@pytest.mark.parametrize(("activation", "bias", "weight"), [(Gelu(), 0.172922, 1.983058), (Silu(), 0.555143, 1.988005)])
def test_gelu_and_silu_are_critical_at_their_half_stable_points(
    activation: Activation, bias: float, weight: float
) -> None:
    assert critical_weight(Elementwise(activation), bias) == pytest.approx(weight, rel=1e-4)


@pytest.mark.parametrize(
    ("weight", "chi", "overlap", "depth"),
    [
        (1, 0.75903, 1, 3.62698),
        (1.5, 0.93864, 1, 15.791),
        (2.5, 1.13352, 0.44680, 11.796),
        (4, 1.34240, 0.16506, 6.9803),
    ],
)
def test_tanh_has_its_known_phases(weight: float, chi: float, overlap: float, depth: float) -> None:
    found = plain_phase(Elementwise(Tanh()), weight, 0.05, "none", 2, 10)
    assert found.chi == pytest.approx(chi, abs=1e-4)
    assert found.overlap == pytest.approx(overlap, abs=1e-4)
    assert found.depth_scale == pytest.approx(depth, rel=1e-3)
    assert found.word == ("ordered" if chi < 1 else "chaotic")


def test_the_overlap_of_the_chaotic_phase_is_a_fixed_point() -> None:
    f = Elementwise(Tanh())
    q = fixed_variance(f, 3.0, 0.05)
    assert q is not None
    c = fixed_overlap(f, 3.0, 0.05, q)
    assert c == pytest.approx(0.29932, abs=1e-4)
    assert pair_slope(f, q, c) * 3.0 < 1


def test_batch_norm_multiplies_by_pi_over_pi_minus_one() -> None:
    found = plain_phase(Elementwise(Relu()), 2.0, 0.0, "batch", 2, 10)
    assert found.chi == pytest.approx(pi / (pi - 1), rel=1e-10)
    assert found.word == "chaotic"


def test_relu_is_critical_at_he() -> None:
    assert critical_weight(Elementwise(Relu()), 0.0) == pytest.approx(2.0, rel=1e-10)
    assert plain_phase(Elementwise(Relu()), 2.0, 0.0, "none", 2, 10).word == "critical"
