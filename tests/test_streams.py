from __future__ import annotations

import numpy as np
from scipy import stats

from gradlab.streams import Streams, standard_normal


def test_a_stream_depends_on_its_keys_alone_not_on_the_order_of_creation() -> None:
    a = Streams(1, 2)
    first = a.uniform("init", (3, 4), 1)
    a.uniform("data", (5,))
    Streams(9, 9).uniform("init", (3, 4), 1)
    assert np.array_equal(first, Streams(1, 2).uniform("init", (3, 4), 1))


def test_every_key_matters() -> None:
    draws = [
        Streams(root, trial).uniform(name, (4,), key)
        for root in (0, 1)
        for trial in (None, 0, 1)
        for name in ("init", "data")
        for key in (0, 1)
    ]
    assert len({draw.tobytes() for draw in draws}) == len(draws)


def test_streams_are_pinned() -> None:
    """Changing them changes every result: increment the engines' numerics versions with it."""
    assert Streams(0, 0).uniform("init", (2,), 1).tolist() == PINNED


def test_uniform_numbers_stay_inside_the_open_interval_and_normal_ones_are_normal() -> None:
    u = Streams(0, 0).uniform("init", (100_000,), 1)
    assert 0 < u.min() < u.max() < 1
    assert stats.kstest(u, "uniform").pvalue > 1e-3
    assert stats.kstest(standard_normal(u), "norm").pvalue > 1e-3


PINNED = [0.5775854466865336, 0.1294261828772491]
