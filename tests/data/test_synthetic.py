from __future__ import annotations

import numpy as np
import pytest

from gradlab.data.synthetic import Circles, Identity, Moons, OneSample, Plane, Spirals, Xor
from gradlab.parts import BUILT_IN


def test_identity_draws_uniform_vectors_whose_target_is_the_input() -> None:
    data = Identity(dim=64, samples=1024).load(np.random.default_rng(0), np.random.default_rng(0))
    assert data.inputs.shape == (1024, 64)
    assert np.array_equal(data.inputs, data.targets)
    assert -1 <= data.inputs.min() < -0.99
    assert 0.99 < data.inputs.max() <= 1
    assert abs((data.inputs**2).mean() - 1 / 3) < 0.01
    assert abs((np.minimum(data.inputs, 0) ** 2).mean() - 1 / 6) < 0.01


def test_one_sample_is_one_standard_normal_input_with_a_constant_target() -> None:
    data = OneSample(dim=5000, outputs=2, target=0.5).load(np.random.default_rng(0), np.random.default_rng(0))
    assert data.inputs.shape == (1, 5000)
    assert abs(data.inputs.std() - 1) < 0.05
    assert data.targets.tolist() == [[0.5, 0.5]]


@pytest.mark.parametrize("kind", [Circles, Moons, Spirals, Xor])
def test_points_in_the_plane_have_two_equally_frequent_classes_and_a_test_set_of_their_own(kind: type[Plane]) -> None:
    data = kind(samples=400, test=200).load(np.random.default_rng(0), np.random.default_rng(0))
    assert data.inputs.shape == (600, 2)
    assert np.bincount(data.targets).tolist() == [300, 300]
    assert (len(data.train), len(data.test), data.classes) == (400, 200, 2)
    assert 0.5 < data.inputs.std() < 1.2
    assert np.abs(data.inputs.mean(0)).max() < 0.15


def nearest_is_alike(x: np.ndarray, y: np.ndarray) -> float:
    """The share of points whose nearest neighbor is of the same class."""
    apart = ((x[:, None] - x[None]) ** 2).sum(-1)
    np.fill_diagonal(apart, np.inf)
    return float((y[apart.argmin(1)] == y).mean())


def line_separates(x: np.ndarray, y: np.ndarray) -> float:
    """The accuracy of the best straight line (least squares)."""
    design = np.c_[x, np.ones(len(x))]
    weights = np.linalg.lstsq(design, 2.0 * y - 1, rcond=None)[0]
    return float(((design @ weights > 0) == y).mean())


@pytest.mark.parametrize(("kind", "most"), [(Circles, 0.6), (Moons, 0.93), (Spirals, 0.75), (Xor, 0.6)])
def test_without_noise_the_classes_are_apart_and_no_line_separates_them(kind: type[Plane], most: float) -> None:
    x, y = kind(noise=0.0).fresh(np.random.default_rng(1), 1000)
    assert nearest_is_alike(x, y) > 0.95
    assert line_separates(x, y) < most


def test_the_second_arm_of_the_spirals_is_the_first_turned_by_half_a_turn() -> None:
    task = Spirals(noise=0.0)
    u = np.random.default_rng(0).random((50, 2))
    assert np.allclose(task.place(u, np.zeros(50, int)), -task.place(u, np.ones(50, int)))


@pytest.mark.parametrize("task", ["identity", "moons", "circles", "spirals", "xor", "parity", "teacher_student"])
def test_validation_samples_are_drawn_after_the_others_and_change_no_split(task: str) -> None:
    kind = BUILT_IN.get("task", task)
    plain, more = kind(), kind(validation=40)  # type: ignore[call-arg]
    assert "validation" not in plain.parameters() or plain.parameters()["validation"] == 0
    one, two = (made.load(np.random.default_rng(1), np.random.default_rng(2)) for made in (plain, more))
    assert (len(one.validation), len(two.validation), more.facts().validation) == (0, 40, 40)
    assert [len(rows) for rows in (one.train, one.test)] == [len(rows) for rows in (two.train, two.test)]
    assert not set(two.validation) & {*two.train, *two.test}
