"""Spreads over draws against layers that are drawn directly: no network, no probe, only the equations."""

from __future__ import annotations

import numpy as np
import pytest

from gradlab.network.activations import Relu, Sigmoid, Tanh
from gradlab.network.inits import HeNormal, TorchDefault
from gradlab.theory.delta import Gathered
from gradlab.theory.laws import Elementwise, correlation, law_of
from gradlab.theory.signal import Spread, _entry, behind_function, shift

COVARIANCE = 1.3 * np.array([[1.0, 0.4], [0.4, 1.0]])
N, DRAWS = 50, 4000


def draw(covariance: np.ndarray, n: int = N) -> np.ndarray:
    """(draws, samples, n) Gaussian numbers with this covariance of the samples."""
    root = np.linalg.cholesky(covariance)
    return root @ np.random.default_rng(5).standard_normal((DRAWS, len(covariance), n))


@pytest.mark.parametrize("activation", [Relu(), Sigmoid(), Tanh()], ids=lambda one: one.name)
def test_a_standard_deviation_spreads_as_its_own_covariances_say_not_as_the_second_moment(activation) -> None:
    x = activation.forward(draw(COVARIANCE))
    c = correlation(COVARIANCE)
    spread = Spread(0.0, np.zeros((2, 2)), 2)
    own = behind_function(law_of(Elementwise(activation), COVARIANCE), c, (), spread, 0.0, N)
    measured = np.log(x.reshape(DRAWS, -1).var(1)).var()
    drift = 2 * (np.mean(x.mean((1, 2)).var()) / x.var()) ** 2  # of the squared mean that is taken out
    assert own.spread.variance + drift == pytest.approx(measured, rel=0.1)
    whole = np.log((x**2).mean((1, 2))).var()
    if activation.name == "sigmoid":  # its mean dominates E x², which spreads less
        assert whole < 0.75 * measured


@pytest.mark.parametrize("activation", [Relu(), Tanh()], ids=lambda one: one.name)
def test_a_layer_norm_takes_two_orders_out_of_the_spread(activation) -> None:
    z = draw(COVARIANCE)
    z = (z - z.mean(2, keepdims=True)) / z.std(2, keepdims=True)
    x = activation.forward(z)
    seen = correlation(COVARIANCE)
    own = shift(law_of(Elementwise(activation), seen), seen, (1, 2))
    assert np.cov(((x - x.mean()) ** 2).mean(2).T)[0, 0] * N == pytest.approx(own.squares[0, 0], rel=0.12)


def test_uniform_entries_have_their_kurtosis_and_normal_ones_none() -> None:
    assert _entry(TorchDefault(), 30, 40)[2] == pytest.approx(-1.2, abs=0.01)
    assert _entry(HeNormal(), 30, 40)[2] == pytest.approx(0.0, abs=1e-3)


def test_a_sphere_changes_the_mean_of_a_function_by_its_fourth_order() -> None:
    """What a norm does to E f'²: coordinates on a sphere of n dimensions have the excess kurtosis −6/(n + 2)."""
    z = draw(np.eye(1), 20)
    z = z / np.sqrt((z**2).mean(2, keepdims=True))
    slope = (1 - np.tanh(z) ** 2) ** 2
    law = law_of(Elementwise(Tanh()), np.eye(1))
    expected = law.slope[0, 0] * (1 - 6 / 20 * law.fourths[1])
    assert slope.mean() == pytest.approx(expected, rel=0.01)
    assert abs(slope.mean() / law.slope[0, 0] - 1) > 0.02


def test_noise_that_delta_leans_on_is_gathered_by_powers_of_the_lean() -> None:
    start = Gathered.start(2, 8, 1.0).leaning(0.5, -0.2)
    noise, signal, shared = np.full((2, 2), 0.1), np.full((2, 2), 0.3), np.full((2, 2), 0.04)
    found = start.with_noise(-0.05, noise, signal, shared)
    for top in (0.0, 0.7, 2.0):
        lean = 0.5 * top - 0.2
        assert found.lean(top) == pytest.approx(lean)
        assert found.at(top).covariance[0, 1] == pytest.approx(0.1 + lean**2 * 0.3 + lean * 0.04)
