"""Claims that something is the best over an axis, and claims that no number of seeds at hand could settle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from given_numbers import GivenNumbers

import gradlab
from gradlab.analysis.claims import judge
from gradlab.analysis.claims.power import describe_shortfalls, list_shortfalls
from gradlab.errors import StudyError

DEPTHS = {"axes": {"model.depth": [2, 3, 4, 5]}, "arms": None, "factor": []}


def judged(tree: dict[str, Any], claim: dict[str, Any], medians: Mapping[int, float], seeds: int = 10) -> Any:
    rng = np.random.default_rng(0)
    numbers = {(f"depth={d}", "final_loss"): (m * rng.lognormal(0, 0.05, seeds)).tolist() for d, m in medians.items()}
    plan = gradlab.plan({**tree, **DEPTHS, "seeds": seeds, "claims": [{"text": "t", "metric": "final_loss", **claim}]})
    return judge(GivenNumbers(plan, numbers=numbers))[0]


LOWEST = {"op": "lowest", "along": "depth", "arms": ["depth=2", "depth=3"]}


def test_one_of_the_claimed_has_to_beat_every_other(tree: dict[str, Any]) -> None:
    assert judged(tree, LOWEST, {2: 1, 3: 0.5, 4: 2, 5: 3}).outcome == "reproduced"
    assert judged(tree, LOWEST, {2: 0.5, 3: 9, 4: 2, 5: 3}).outcome == "reproduced"
    assert judged(tree, {**LOWEST, "op": "highest"}, {2: 5, 3: 0.5, 4: 2, 5: 3}).outcome == "reproduced"


def test_an_other_that_beats_all_claimed_refutes_it_and_is_named(tree: dict[str, Any]) -> None:
    verdict = judged(tree, LOWEST, {2: 1, 3: 0.9, 4: 0.3, 5: 3})
    assert verdict.outcome == "not reproduced"
    assert "4 layers is" in verdict.reason


def test_a_tie_between_claimed_and_other_is_not_settled(tree: dict[str, Any]) -> None:
    assert judged(tree, LOWEST, {2: 1, 3: 1, 4: 1, 5: 3}).outcome == "not settled"


def test_a_tie_within_the_claimed_does_no_harm(tree: dict[str, Any]) -> None:
    assert judged(tree, LOWEST, {2: 1, 3: 1, 4: 2, 5: 3}).outcome == "reproduced"


def test_ties_are_rarely_called_settled(tree: dict[str, Any]) -> None:
    """All four groups are the same: whichever is claimed, at most 5 % of the verdicts are wrong (here of 200)."""
    plan = gradlab.plan({**tree, **DEPTHS, "seeds": 5, "claims": [{"text": "t", "metric": "final_loss", **LOWEST}]})
    rng, settled = np.random.default_rng(1), 0
    for _ in range(200):
        numbers = {(f"depth={d}", "final_loss"): rng.lognormal(0, 1, 5).tolist() for d in (2, 3, 4, 5)}
        settled += judge(GivenNumbers(plan, numbers=numbers))[0].outcome != "not settled"
    assert settled <= 10


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        ({"op": "highest"}, "needs the arms"),
        ({"op": "highest", "arms": ["depth=2", "depth=3", "depth=4", "depth=5"]}, "no other group"),
        ({"op": "highest", "arms": "depth=2", "value": 1.0}, "leave the value out"),
        ({"op": ">", "arms": "depth=2", "value": 1.0, "along": "depth"}, "leave along out"),
        ({"op": "highest", "arms": "depth=2", "along": "width"}, "not an axis"),
    ],
)
def test_an_incomplete_claim_is_refused(tree: dict[str, Any], claim: dict[str, Any], words: str) -> None:
    with pytest.raises(StudyError, match=words):
        gradlab.plan({**tree, **DEPTHS, "claims": [{"text": "t", "metric": "final_loss", **claim}]})


def _study(tree: dict[str, Any], claims: list[dict[str, Any]], seeds: int) -> Any:
    return gradlab.load({**tree, "claims": claims, "seeds": seeds}).study


def test_a_plan_says_which_claims_cannot_be_settled(tree: dict[str, Any]) -> None:
    alone = {"text": "a", "metric": "final_loss", "arms": "plain", "op": "<", "value": 1}
    pair = {"text": "b", "metric": "final_loss", "arms": ["plain", "residual"], "op": "<"}
    assert list_shortfalls(_study(tree, [alone, pair], 6)) == ()
    assert [short.number for short in list_shortfalls(_study(tree, [alone, pair], 5))] == [1]
    assert [short.number for short in list_shortfalls(_study(tree, [alone, pair], 2))] == [1, 2]
    (short,) = list_shortfalls(_study(tree, [pair, alone], 5))
    assert (short.number, short.needs) == (2, 6)
    assert "claim 2, " in describe_shortfalls(_study(tree, [pair, alone], 5))
    assert describe_shortfalls(_study(tree, [], 1)) == ""


@pytest.mark.parametrize("claims", [1, 2, 4])
def test_the_fewest_seeds_do_settle_it_and_one_less_does_not(tree: dict[str, Any], claims: int) -> None:
    """What the plan says of the claims is what the verdicts do when all seeds agree."""
    alone = [
        {"text": f"{i}", "metric": "final_loss", "arms": "depth=2", "op": "<", "value": 1.0 + i} for i in range(claims)
    ]
    needs = max(short.needs for short in list_shortfalls(_study({**tree, **DEPTHS}, alone, 1)))
    for seeds, settled in ((needs, True), (needs - 1, False)):
        plan = gradlab.plan({**tree, **DEPTHS, "seeds": seeds, "claims": alone})
        numbers = {(f"depth={d}", "final_loss"): [0.5] * seeds for d in (2, 3, 4, 5)}
        verdicts = judge(GivenNumbers(plan, numbers=numbers))
        assert {verdict.outcome for verdict in verdicts} == {"reproduced" if settled else "not settled"}


@pytest.mark.parametrize("name", gradlab.list_studies())
def test_every_built_in_claim_can_be_settled(name: str) -> None:
    assert describe_shortfalls(gradlab.load(name).study) == ""
