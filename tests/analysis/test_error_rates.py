"""Verdicts have the error rates they claim; docs/error-rates.md is made by the same simulation."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "make_error_rates.py"
DRAWS = 80
"""Of the fast version: enough to see a rate of 18 % where 6 % are promised."""


def _loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_error_rates", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


SIMULATION: Any = _loaded()


@pytest.mark.parametrize("n", SIMULATION.SEEDS)
@pytest.mark.parametrize("case", SIMULATION.CASES, ids=lambda case: case.name)
def test_few_verdicts_are_wrong_and_intervals_cover(case: Any, n: int) -> None:
    rng = np.random.default_rng(n)
    rates = [SIMULATION.two_arm_rates(case, n, DRAWS, rng)]
    rates += [SIMULATION.one_arm_rates(case, n, DRAWS, rng)] if case.one else []
    for rate in rates:
        assert rate.wrong <= 0.125
        assert rate.covered >= 0.875


def test_what_people_would_see_is_settled() -> None:
    rng = np.random.default_rng(0)
    normal, *_ = SIMULATION.CASES
    assert SIMULATION.two_arm_rates(normal, 10, DRAWS, rng).power > 0.75
    assert SIMULATION.two_arm_rates(normal, 30, DRAWS, rng).power > 0.9
    assert SIMULATION.one_arm_rates(normal, 10, DRAWS, rng).power > 0.7


@pytest.mark.parametrize("share", [0.05, 0.5])
def test_shares_cover(share: float) -> None:
    for n in SIMULATION.SEEDS:
        rate = SIMULATION.share_rates(share, n, DRAWS, np.random.default_rng(n))
        assert rate.wrong <= 0.1
        assert rate.covered >= 0.9


def test_following_the_advice_seed_by_seed_settles_nothing_that_is_not_there() -> None:
    assert SIMULATION.follow_advice(80, np.random.default_rng(0)) <= 0.1


def test_fifty_claims_share_their_errors_also_where_every_direction_is_clear() -> None:
    assert SIMULATION.holm(30, np.random.default_rng(0)) <= 0.2


def test_the_best_of_many_equal_groups_is_not_better() -> None:
    assert SIMULATION.best_of_many(5, 40, np.random.default_rng(0)) <= 0.2


@pytest.mark.slow
def test_every_rate_is_kept() -> None:
    _, broken = SIMULATION.tables(2000, seed=1)
    assert broken == []
