"""Every planned seed counts in every verdict: diverged, failed, missing and censored ones too."""

from __future__ import annotations

import math
from typing import Any

import pytest
from sweeps import ended, mnist

from gradlab.analysis.claims import judge
from gradlab.analysis.sample import UNKNOWN, Sample, divided, pooled, sample_of
from gradlab.report.tables import tabulate_groups
from gradlab.spec.metric import infer
from gradlab.tell.findings import findings

ARMS = {"a": {}, "b": {"model.skip": "identity"}}


def verdict(claim: dict[str, Any], a: list[Any], b: list[Any] | None = None, **study: Any) -> Any:
    """Of a claim about arms whose seeds gave these: a number, None, `diverged`, `failed` or `missing`."""
    tree = mnist(arms=ARMS, factor="model.skip", claims=[{"text": "t", **claim}], **study)
    (found,) = judge(ended(tree, claim["metric"], {"a": a, "b": b or a}))
    return found


def test_networks_without_a_number_are_not_left_out_of_a_threshold() -> None:
    """Seven of ten NaN once gave `reproduced, n = 3`."""
    claim = {"metric": "final_loss", "arms": "a", "op": "<", "value": 1.0}
    found = verdict(claim, [0.1, 0.11, 0.12] + ["diverged"] * 7)
    assert found.outcome == "not settled"
    assert found.readings[0].estimate.n == 10
    assert "7 diverged" in found.measured


@pytest.mark.parametrize("lost", ["failed", "missing", None])
def test_failed_seeds_count_against_every_conclusion(lost: str | None) -> None:
    """Five of ten failures once gave `reproduced, n = 5`."""
    above = {"metric": "test_accuracy", "arms": "a", "op": ">", "value": 0.5}
    seeds: list[Any] = [0.9, 0.91, 0.92, 0.9, 0.91] + [lost] * 5
    for op in (">", "<"):
        found = verdict({**above, "op": op}, seeds)
        assert found.outcome == "not settled"
        assert found.codes[0] == "seeds_without_number"
        assert found.readings[0].unknown == 5
        assert "5 without" in found.measured


def test_enough_seeds_settle_a_claim_whatever_the_others_would_have_been() -> None:
    claim = {"metric": "test_accuracy", "arms": "a", "op": ">", "value": 0.5}
    assert verdict(claim, [0.9] * 19 + ["failed"]).outcome == "reproduced"


def test_a_diverged_network_is_worse_than_any_in_a_comparison() -> None:
    claim = {"metric": "test_accuracy", "arms": ["a", "b"], "op": ">"}
    healthy = [0.6, 0.61, 0.62, 0.63, 0.64] * 2
    assert verdict(claim, healthy, ["diverged"] * 10).outcome == "reproduced"
    assert verdict(claim, ["diverged"] * 10, healthy).outcome == "not reproduced"


def test_a_metric_without_a_better_cannot_be_settled_by_networks_that_have_none() -> None:
    claim = {"metric": "collapsed", "arms": "a", "op": ">", "value": 0.5}
    assert verdict(claim, [1.0, 1.0, 1.0] + ["diverged"] * 7).outcome == "not settled"
    assert infer("temperature").worst is None
    sample = sample_of(infer("temperature"), [0], {0: math.nan}, {0: "done"})
    assert sample.ends[0] == UNKNOWN


def test_a_target_that_was_never_reached_lies_later_than_any() -> None:
    """13 of 20 seeds that never arrived once left seven fast ones."""
    target = {"measure": {"target": {"metric": "test_accuracy", "value": 0.8}}}
    claim = {"metric": "steps_to_target", "arms": ["a", "b"], "op": "<"}
    fast, slow = [10.0] * 7 + [None] * 13, [20.0] * 20
    assert verdict(claim, fast, slow, **target).outcome == "not settled"
    below = {"metric": "steps_to_target", "arms": "a", "op": "<", "value": 15}
    assert verdict(below, fast, **target).outcome == "not settled"
    assert verdict(claim, [None] * 20, slow, **target).outcome == "not reproduced"
    assert verdict(claim, [10.0] * 20, [None] * 13 + [20.0] * 7, **target).outcome == "reproduced"


def test_a_share_counts_the_trials_that_nobody_saw_end() -> None:
    claim = {"metric": "diverged", "arms": "a", "op": "<", "value": 0.5}
    assert verdict(claim, [0.9] * 10).outcome == "reproduced"
    found = verdict(claim, [0.9] * 5 + ["failed"] * 5)
    assert found.outcome == "not settled"
    assert found.readings[0].unknown == 5


def test_a_quotient_of_two_zeros_is_unknown_and_over_one_zero_infinite() -> None:
    top, bottom = (
        {seed: (v, v) for seed, v in enumerate(vs)} for vs in ([0.0, 1.0, 2.0, math.inf], [0.0, 0.0, 4.0, 1.0])
    )
    assert divided(Sample(top), Sample(bottom)).ends == {
        0: UNKNOWN, 1: (math.inf, math.inf), 2: (0.5, 0.5), 3: (math.inf, math.inf),
    }  # fmt: skip


def test_a_mean_over_groups_is_unknown_where_one_is() -> None:
    one, two = Sample({0: (1.0, 1.0), 1: (3.0, 3.0)}), Sample({0: (3.0, 3.0), 1: UNKNOWN})
    assert pooled([one, two]).ends == {0: (2.0, 2.0), 1: UNKNOWN}


def test_tables_and_findings_say_what_became_of_the_seeds() -> None:
    tree = mnist(arms=ARMS, factor="model.skip")
    found = ended(tree, "test_accuracy", {"a": [0.9] * 6 + ["failed"] * 4, "b": [0.5] * 9 + ["diverged"]})
    table = tabulate_groups(found)
    rows = {row[0]: row for row in table.rows}
    assert "in 6 of 10 seeds" in " ".join(rows["a"])
    assert "4 failed" in " ".join(rows["a"])
    assert "1 diverged" in " ".join(rows["b"])
    assert "settled against b" in findings(found)


def test_the_zero_spread_of_a_coarse_accuracy_proves_nothing_within_its_resolution() -> None:
    """Three accuracies of 100 rows that happen to be equal once gave p = 0."""
    claim = {"metric": "test_accuracy", "arms": ["a", "b"], "op": ">"}
    tree = {"base": {"data": {"task": "mnist", "train": 200, "validation": 0, "test": 100}}}
    base = mnist()["base"] | tree["base"]
    found = verdict(claim, [0.97] * 4, [0.96] * 4, base=base)
    assert found.outcome == "not settled"
    assert found.p > 0.05
    clear = verdict(claim, [0.97] * 5, [0.61] * 5, base=base)
    assert clear.outcome == "reproduced"
    assert clear.p > 0
