"""Claims over a whole project: e-values, and the level of e-LOND."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from small_study import study

import gradlab
from gradlab.analysis.online import KAPPA, calibrate, evidence, needed_evidence, seeds_over_project, settle
from gradlab.spec.claims import Claim
from gradlab.tell.answers import verdicts_of

SCRIPT = Path(__file__).parents[2] / "benchmarks/claims_of_a_project.py"


def simulation() -> ModuleType:
    spec = importlib.util.spec_from_file_location("claims_of_a_project", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_mean_of_a_calibrated_p_value_is_one() -> None:
    edges = np.logspace(-150, 0, 200_001)
    middles = np.sqrt(edges[1:] * edges[:-1])
    mean = sum(calibrate(float(p)) * width for p, width in zip(middles, np.diff(edges), strict=True))
    assert mean == pytest.approx(1, abs=0.01)
    assert calibrate(1.0) == KAPPA


def test_the_levels_of_all_claims_sum_to_at_most_five_percent() -> None:
    shares = [2 / needed_evidence(number, 0) for number in range(1, 200_000)]
    rest = 0.05 / 2.11 / math.log(200_000)  # the integral beyond
    assert sum(shares) + rest <= 0.05
    assert sum(shares) + rest > 0.049


def test_every_settled_claim_raises_the_level_of_later_ones() -> None:
    assert needed_evidence(10, 4) == pytest.approx(needed_evidence(10, 0) / 5)


@pytest.mark.parametrize(("seeds", "way"), [(6, None), (12, "holds")])
def test_a_claim_needs_more_over_the_project_than_in_its_own_study(seeds: int, way: str | None) -> None:
    claim = {"text": "it starts higher", "metric": "initial_loss", "arms": ["residual", "plain"], "op": ">"}
    changes = {"data": {"task": "identity", "dim": 8, "samples": 32}, "train.loss": "mse", "train.epochs": 1}
    result = gradlab.run(study(changes, claims=[claim], seeds=seeds, headline={"metric": "final_loss"}))
    (verdict,), (found,) = verdicts_of(result.measured), evidence(result.measured)
    assert verdict.outcome == "reproduced"
    assert settle(1, 0, verdict, found) == way
    assert settle(1000, 0, verdict, found) is None


def test_clear_pairs_settle_the_first_claim_with_ten_seeds_and_the_thousandth_with_twenty() -> None:
    claim = Claim.model_validate({"text": "a", "metric": "final_loss", "arms": ["a", "b"], "op": ">"})
    assert seeds_over_project(claim, 1, 0) == 10
    assert seeds_over_project(claim, 1000, 0) == 20
    alone = Claim.model_validate({"text": "a", "metric": "final_loss", "arms": "a", "op": ">", "value": 1})
    assert seeds_over_project(alone, 1, 0) < seeds_over_project(alone, 1000, 0)


def test_a_project_of_false_claims_settles_none_of_most() -> None:
    project = simulation()
    rng = np.random.default_rng(1)
    found = np.array([project.simulate(rng, "null", claims=60) for _ in range(20)])
    assert (found[:, 1] > 0).mean() <= 0.05
    assert found[:, 0].sum() > 0  # alone, some of them are


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["null", "dependent", "skewed", "stopped", "mixed"])
def test_at_most_five_percent_of_what_a_ledger_of_a_thousand_claims_settles_is_false(kind: str) -> None:
    project = simulation()
    rng = np.random.default_rng(2)
    _, false, _, true = np.array([project.simulate(rng, kind) for _ in range(20)]).T
    assert (false / np.maximum(false + true, 1)).mean() <= 0.05
    if kind == "mixed":
        assert true.mean() > 80
