from __future__ import annotations

import numpy as np
import torch

from gradlab.network.norms import BatchNorm


def test_batch_norm_running_statistics_and_evaluation_agree_with_torch() -> None:
    theirs = torch.nn.BatchNorm1d(4, dtype=torch.float64)
    ours, running = BatchNorm(), (np.zeros(4), np.ones(4))
    p = {"gain": np.array([1.0, 2.0, 0.5, -1.0]), "shift": np.array([0.1, 0.0, -0.3, 2.0])}
    theirs.weight.data, theirs.bias.data = torch.tensor(p["gain"]), torch.tensor(p["shift"])
    rng = np.random.default_rng(0)
    for _ in range(20):
        x = 3 * rng.standard_normal((8, 4)) + 1
        y, _, running = ours.forward(x, p, running, True)
        np.testing.assert_allclose(y, theirs(torch.tensor(x)).detach().numpy(), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(running[0], theirs.running_mean.numpy(), rtol=1e-12)
    np.testing.assert_allclose(running[1], theirs.running_var.numpy(), rtol=1e-12)
    theirs.eval()
    x = rng.standard_normal((3, 4))
    y = ours.forward(x, p, running, False)[0]
    np.testing.assert_allclose(y, theirs(torch.tensor(x)).detach().numpy(), rtol=1e-12)


def test_batch_norm_of_a_single_sample_stays_finite() -> None:
    p = {"gain": np.ones(3), "shift": np.zeros(3)}
    y, _, running = BatchNorm().forward(np.ones((1, 3)), p, (np.zeros(3), np.ones(3)), True)
    assert (y == 0).all()
    assert np.isfinite(running).all()
    assert (running[1] == 1).all()
