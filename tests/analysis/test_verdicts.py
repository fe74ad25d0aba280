from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

import gradlab
from gradlab.analysis.claims import judge
from gradlab.analysis.measured import Measured
from gradlab.analysis.published import beside
from gradlab.spec.place import At

GOOD, BAD = (0.97, 0.96, 0.965, 0.968, 0.962), (0.61, 0.64, 0.62, 0.6, 0.63)


@dataclass(frozen=True)
class Told(Measured):
    """A result with numbers of the test's own: (group, metric, layer) -> values by seed."""

    numbers: Mapping[Any, Any] = field(default_factory=dict)

    @property
    def by_group(self) -> Mapping[str, tuple[Any, ...]]:  # type: ignore[override]
        return dict.fromkeys(self.group_names, ())

    def values(self, metric: str, group: str, at: At | None = None) -> dict[int, Any]:
        layer = None if at is None else at.layer
        found = self.numbers.get((group, metric, layer), self.numbers.get((group, metric), ()))
        return dict(enumerate(found))


def told(tree: dict[str, Any], claims: Any, numbers: Mapping[Any, Any], **study: Any) -> tuple[Any, ...]:
    seeds = max(len(values) for values in numbers.values())
    plan = gradlab.plan({**tree, "claims": claims, "seeds": seeds, **study})
    return judge(Told(plan, None, numbers))  # type: ignore[arg-type]


def outcome(tree: dict[str, Any], claim: dict[str, Any], plain: Any, residual: Any = (), **study: Any) -> str:
    metric = claim.get("metric", "final_loss")
    numbers = {("plain", metric): plain, ("residual", metric): residual or plain}
    (verdict,) = told(tree, [{"text": "t", "metric": "final_loss", **claim}], numbers, **study)
    return str(verdict.outcome)


def test_a_threshold_is_reproduced_refuted_or_open(tree: dict[str, Any]) -> None:
    below = {"arms": "plain", "op": "<", "value": 0.7}
    assert outcome(tree, below, BAD) == "reproduced"
    assert outcome(tree, below, GOOD) == "not reproduced"
    assert outcome(tree, below, (0.5, 0.9, 0.6, 0.8, 0.7)) == "not settled"
    assert outcome(tree, {**below, "op": ">"}, GOOD) == "reproduced"


def test_between_and_near_ask_for_the_whole_interval_inside(tree: dict[str, Any]) -> None:
    between = {"arms": "plain", "op": "between", "value": [0.94, 0.98]}
    assert outcome(tree, between, GOOD) == "reproduced"
    assert outcome(tree, between, BAD) == "not reproduced"
    assert outcome(tree, between, (0.93, 0.99, 0.95, 0.97, 0.96)) == "not settled"
    assert outcome(tree, {"arms": "plain", "op": "near", "value": 0.62}, BAD) == "reproduced"
    assert outcome(tree, {"arms": "plain", "op": "near", "value": 0.62, "within": 0.001}, BAD) == "not settled"


def test_two_arms_are_compared_seed_by_seed(tree: dict[str, Any]) -> None:
    noise = np.random.default_rng(0).lognormal(0, 3, 8)
    plain, residual = noise * 1.1, noise  # far apart between seeds, close and always ordered within
    assert outcome(tree, {"arms": ["plain", "residual"], "op": ">"}, plain.tolist(), residual.tolist()) == "reproduced"
    assert (
        outcome(tree, {"arms": ["plain", "residual"], "op": "<"}, plain.tolist(), residual.tolist()) == "not reproduced"
    )


def test_a_ratio_of_another_size_is_right_in_direction_only(tree: dict[str, Any]) -> None:
    claim = {"arms": ["plain", "residual"], "op": "ratio", "value": 5.3}
    plain, near, far = [0.33, 0.34, 0.33, 0.32], [0.063, 0.062, 0.064, 0.061], [0.2, 0.21, 0.2, 0.19]
    assert outcome(tree, claim, plain, near) == "reproduced"
    assert outcome(tree, claim, plain, far) == "direction only"
    assert outcome(tree, claim, far, plain) == "not reproduced"
    wide = {**claim, "value": [2.0, float("inf")]}
    assert outcome(tree, wide, plain, near) == "reproduced"
    assert outcome(tree, wide, plain, far) == "direction only"
    assert outcome(tree, {**claim, "value": [0.9, 1.1]}, plain, far) == "not reproduced"


def test_an_order_holds_step_by_step_or_only_from_end_to_end(tree: dict[str, Any]) -> None:
    axes = {"model.depth": [2, 3, 4]}
    claim = {"text": "t", "metric": "final_loss", "op": "decreasing", "along": "depth"}

    def along(*means: float) -> Any:
        noise = np.array([1.0, 1.01, 0.99, 1.005])
        numbers = {(f"depth={d}", "final_loss"): (m * noise).tolist() for d, m in zip((2, 3, 4), means, strict=True)}
        (verdict,) = told(tree, [claim], numbers, axes=axes, arms=None, factor="model.depth")
        return verdict

    assert along(3, 2, 1).outcome == "reproduced"
    turned = along(3, 1, 2)
    assert turned.outcome == "direction only"
    assert "depth=4 is above depth=3" in turned.reason
    assert along(1, 2, 3).outcome == "not reproduced"
    order = {**claim, "op": "ordered", "along": None, "arms": ["depth=4", "depth=2", "depth=3"]}
    numbers = {(f"depth={d}", "final_loss"): [v, v * 1.01, v * 0.99] for d, v in ((4, 9.0), (2, 3.0), (3, 1.0))}
    (verdict,) = told(tree, [order], numbers, axes=axes, arms=None, factor="model.depth")
    assert verdict.outcome == "reproduced"


def test_a_claim_of_many_groups_is_made_of_each(tree: dict[str, Any]) -> None:
    claim = {"text": "t", "metric": "final_loss", "op": "<", "value": 0.7}
    numbers = {("plain", "final_loss"): BAD, ("residual", "final_loss"): BAD}
    assert told(tree, [claim], numbers)[0].outcome == "reproduced"
    numbers["residual", "final_loss"] = GOOD
    assert told(tree, [claim], numbers)[0].outcome == "not reproduced"


def test_layers_of_one_arm_are_compared(tree: dict[str, Any]) -> None:
    numbers = {("plain", "grad_l2", 1): [1e-17, 1e-18, 0.0, 1e-17], ("plain", "grad_l2", 3): [1e-3, 2e-3, 1e-3, 3e-3]}
    claim = {"text": "t", "metric": "grad_l2", "arms": "plain", "at": {"layer": [3, 1], "step": "end"}}
    (verdict,) = told(tree, [{**claim, "op": "ratio", "value": [1e6, float("inf")]}], numbers)
    assert verdict.outcome == "reproduced"
    assert verdict.readings[0].zeros == 1
    assert verdict.readings[0].left_out == 1
    assert "1 exact zero" in verdict.measured


def test_one_metric_over_another(tree: dict[str, Any]) -> None:
    numbers = {("residual", "final_loss"): [0.06, 0.07, 0.065], ("residual", "initial_loss"): [12.0, 14.0, 13.0]}
    claim = {"text": "t", "metric": "final_loss/initial_loss", "arms": "residual", "op": "<", "value": 0.01}
    assert told(tree, [claim], numbers)[0].outcome == "reproduced"


def test_one_seed_settles_nothing_and_an_open_claim_says_how_many_would(tree: dict[str, Any]) -> None:
    claim = {"text": "t", "metric": "final_loss", "arms": "plain", "op": "<", "value": 0.7}
    (alone,) = told(tree, [claim], {("plain", "final_loss"): [0.1]})
    assert alone.outcome == "not settled"
    assert "one seed" in alone.reason
    (few,) = told(tree, [claim], {("plain", "final_loss"): [0.3, 0.6, 0.5]})
    assert few.needs is not None
    assert 0 < few.needs < 30
    assert few.words == f"not settled (needs {few.needs} more seeds)"
    (never,) = told(tree, [{**claim, "value": 0.5}], {("plain", "final_loss"): [0.25, 1.0]})
    assert never.needs is None
    assert "no number of seeds" in never.reason


def test_claims_of_a_study_share_their_errors(tree: dict[str, Any]) -> None:
    claim = {"text": "t", "metric": "final_loss", "arms": "plain", "op": "<", "value": 0.7}
    numbers = {("plain", "final_loss"): [0.3, 0.5, 0.55, 0.4]}
    (alone,) = told(tree, [claim], numbers)
    assert alone.outcome == "reproduced"
    many = told(tree, [claim] * 20, numbers)
    assert {verdict.outcome for verdict in many} == {"not settled"}
    assert "Holm" in many[0].reason


def test_a_reduced_budget_leaves_claims_untested_unless_they_need_no_more(tree: dict[str, Any]) -> None:
    quick = {"train.steps": 10}
    claims = [
        {"text": "full", "metric": "final_loss", "arms": "plain", "op": ">", "value": 0},
        {"text": "any", "metric": "initial_loss", "arms": "plain", "op": ">", "value": 0, "budget": "any"},
        "a sentence",
    ]
    result = gradlab.run({**tree, "claims": claims, "quick": quick}, quick=True)
    assert [verdict.outcome for verdict in result.verdicts] == ["not tested", "reproduced", "not tested"]
    assert result.verdicts[0].reason == "reduced budget"


def test_on_other_data_a_claim_holds_or_does_not(tree: dict[str, Any]) -> None:
    claim = {"text": "t", "metric": "final_loss", "arms": "plain", "op": "<", "value": 0.7}
    for values, words in ((BAD, "holds on MNIST"), (GOOD, "does not hold on MNIST")):
        (verdict,) = told(tree, [claim], {("plain", "final_loss"): values}, other_data="MNIST")
        assert verdict.words == words


def test_shares_are_judged_exactly(tree: dict[str, Any]) -> None:
    claim = {"text": "t", "metric": "diverged", "arms": "plain", "op": "<", "value": 0.4}
    result = gradlab.run({**tree, "claims": [claim], "seeds": 10})
    (verdict,) = result.verdicts
    assert verdict.outcome == "reproduced"
    assert verdict.measured == "0 of 10 [0, 31] % (n = 10)"


def test_every_verdict_is_plain_data_with_its_figure(tree: dict[str, Any]) -> None:
    claim = {"text": "t", "metric": "final_loss", "arms": ["plain", "residual"], "op": ">"}
    result = gradlab.run({**tree, "claims": [claim], "seeds": 3})
    (told_,) = result.to_json()["claims"]
    assert told_["figure"] == "training_loss"
    assert told_["verdict"] in ("reproduced", "not reproduced", "not settled")
    assert told_["numbers"][0]["permutation_p"] is not None
    assert "Claims and verdicts" in result.report()
    assert "Holm" in result.report()
    assert replace(result.verdicts[0], outcome="direction only").failed


@pytest.mark.parametrize(("collapsed", "healthy", "outcome"), [(11, 1, "reproduced"), (6, 6, "not settled")])
def test_a_mixture_is_judged_by_its_median_not_its_mean(
    tree: dict[str, Any], collapsed: int, healthy: int, outcome: str
) -> None:
    tree["base"] = {
        "data": {"task": "mnist", "train": 200, "validation": 0, "test": 100},
        "model": {"depth": 2, "width": 4},
        "train": {"loss": "cross_entropy", "optimizer": "sgd", "lr": 0.1, "batch": 100, "epochs": 1},
    }
    claim = {"text": "t", "metric": "test_accuracy", "arms": "plain", "op": "<", "value": 0.15}
    values = [0.1] * collapsed + [0.9] * healthy  # the mean of the first is .17: above the bound
    numbers = {("plain", "test_accuracy"): values, ("plain", "collapsed"): [float(v == 0.1) for v in values]}
    plan = gradlab.plan({**tree, "claims": [claim], "seeds": 12, "measure": {"layers": []}})

    class Mixed(Told):
        metrics = ("test_accuracy", "collapsed")

        def curves_by_seed(self, metric: str, group: str) -> dict[int, Any]:
            return {}

    (verdict,) = judge(Mixed(plan, None, numbers))  # type: ignore[arg-type]
    assert "median" in verdict.measured
    assert verdict.outcome == outcome


def test_layers_are_compared_between_arms_by_their_ratio(tree: dict[str, Any]) -> None:
    numbers = {
        ("plain", "grad_l2", 1): [1.0, 2.0, 1.5],
        ("plain", "grad_l2", 3): [1.0, 2.1, 1.4],
        ("residual", "grad_l2", 1): [100.0, 210.0, 160.0],
        ("residual", "grad_l2", 3): [1000.0, 2000.0, 1500.0],
    }
    claim = {"text": "early layers gain most", "metric": "grad_l2", "arms": ["residual", "plain"], "op": ">"}
    (verdict,) = told(tree, [{**claim, "at": {"layer": [1, 3], "step": "start"}}], numbers)
    assert verdict.outcome == "not reproduced"
    assert verdict.readings[0].estimate.value == pytest.approx(0.1, rel=0.1)


def test_a_claim_of_all_layers_is_made_of_each(tree: dict[str, Any]) -> None:
    claim = {
        "text": "t",
        "metric": "grad_l2",
        "arms": "plain",
        "at": {"layer": "all", "step": "start"},
        "op": ">",
        "value": 0.5,
    }
    numbers = {("plain", "grad_l2", layer): [1.0 * layer, 1.1 * layer, 1.05 * layer] for layer in (1, 2, 3)}
    assert told(tree, [claim], numbers)[0].outcome == "reproduced"
    numbers["plain", "grad_l2", 2] = [0.1, 0.11, 0.12]
    assert told(tree, [claim], numbers)[0].outcome == "not reproduced"


def test_pooled_groups_are_judged_by_their_mean_and_effects_by_their_size(tree: dict[str, Any]) -> None:
    axes = {"model.depth": [2, 4], "model.skip": ["none", "identity"]}
    noise = (1.0, 1.02, 0.98, 1.01)
    means = {(2, "none"): 1.0, (4, "none"): 1.1, (2, "identity"): 0.5, (4, "identity"): 1.2}
    numbers = {(f"depth={d}, skip={s}", "final_loss"): [m * n for n in noise] for (d, s), m in means.items()}
    claim = {"text": "t", "metric": "final_loss", "arms": ["skip=none", "skip=identity"], "op": ">"}
    study = {"axes": axes, "arms": None, "factor": []}
    assert told(tree, [claim], numbers, **study)[0].outcome == "not reproduced"  # at depth 4 it is not so
    assert told(tree, [{**claim, "pooled": True}], numbers, **study)[0].outcome == "reproduced"
    effects = {"text": "t", "metric": "final_loss", "effects": ["depth", "skip"], "op": ">"}
    (verdict,) = told(tree, [effects], numbers, **study)
    assert verdict.outcome == "reproduced"
    assert verdict.readings[0].estimate.value == pytest.approx(0.4, rel=0.01)
    assert verdict.readings[1].estimate.value == pytest.approx(0.2, rel=0.01)


def test_a_published_ratio_of_layers_or_metrics_is_no_published_number_of_a_layer(tree: dict[str, Any]) -> None:
    layers = {"text": "a", "metric": "grad_l2", "arms": "plain", "at": {"layer": [3, 1], "step": "end"}, "op": "ratio"}
    quotient = {
        "text": "b",
        "metric": "final_loss/initial_loss",
        "arms": "plain",
        "op": "<",
        "value": 1,
        "published": 0.5,
    }
    single = {"text": "c", "metric": "final_loss", "arms": "plain", "op": "<", "value": 1, "published": 0.5}
    claims = [{**layers, "value": [1, 1e9], "published": 7e15}, quotient, single]
    result = gradlab.run({**tree, "claims": claims})
    assert [(row.metric, row.published) for row in beside(result.measured)] == [("final_loss", 0.5)]
