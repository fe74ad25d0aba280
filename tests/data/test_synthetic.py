from __future__ import annotations

import numpy as np

from gradlab.data.identity import Identity
from gradlab.data.one_sample import OneSample


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
