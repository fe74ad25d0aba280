from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from given_numbers import GivenNumbers
from small_study import study

import gradlab
from gradlab.analysis.settling import next_round
from gradlab.runs.store.ledger import read_ledger

UNTIL = {"from": 6, "to": 60, "until": "settled"}
LOWER = {"text": "plain is higher", "metric": "final_loss", "arms": ["plain", "residual"], "op": ">"}


def settle(tree: dict[str, Any], claims: list[dict[str, Any]], numbers: dict[Any, Any], until: Any = UNTIL) -> Any:
    """The rounds to the end, on numbers that exist already."""
    plan = gradlab.plan({**tree, "claims": claims, "seeds": until})
    rounds = []
    while True:
        rounds.append(next_round(GivenNumbers(plan, numbers=numbers), len(rounds) + 1))
        if not rounds[-1].seeds:
            return plan, rounds
        plan = plan.with_seeds(rounds[-1].seeds)


def pairs(effect: float, seed: int = 0, spread: float = 0.1, count: int = 60) -> dict[Any, Any]:
    noise = np.random.default_rng(seed).normal(effect, spread, count)
    return {("plain", "final_loss"): np.exp(noise).tolist(), ("residual", "final_loss"): [1.0] * count}


def test_a_clear_claim_costs_no_further_seed(tree: dict[str, Any]) -> None:
    plan, rounds = settle(tree, [LOWER], pairs(1.0))
    assert [round_.seeds for round_ in rounds] == [{}]
    assert rounds[0].settled == 1
    assert len(plan.trials) == 12


def test_seeds_are_added_until_an_open_claim_is_settled(tree: dict[str, Any]) -> None:
    plan, rounds = settle(tree, [LOWER], pairs(0.08))
    assert len(rounds) > 2
    assert rounds[-1].settled == 1
    assert 12 < len(plan.trials) < 120
    assert [trial.seed for trial in plan.trials if trial.group == "plain"] == list(range(len(plan.trials) // 2))


def test_only_the_groups_of_an_open_claim_get_more_seeds(tree: dict[str, Any]) -> None:
    numbers = {**pairs(0.08), ("plain", "test_accuracy"): [0.9] * 60}
    one_arm = {"text": "t", "metric": "final_loss", "arms": "residual", "op": "<", "value": 2}
    open_one = {"text": "t", "metric": "final_loss", "arms": "plain", "op": ">", "value": 1}
    plan, rounds = settle(tree, [one_arm, open_one], numbers, {**UNTIL, "from": 12})
    assert rounds[0].seeds.keys() == {"plain"}
    assert sum(trial.group == "residual" for trial in plan.trials) == 12


def test_equal_arms_end_as_no_difference_that_matters(tree: dict[str, Any]) -> None:
    plan, rounds = settle(tree, [LOWER], pairs(0.0, spread=0.05))
    assert rounds[-1].settled == 1
    (verdict,) = judged(plan, pairs(0.0, spread=0.05))
    assert verdict.outcome == "no difference"
    assert "less than 5 %" in verdict.reason
    assert verdict.words == "no difference that matters"


def judged(plan: Any, numbers: Any) -> Any:
    from gradlab.analysis.claims import judge

    return judge(GivenNumbers(plan, numbers=numbers))


def test_what_matters_is_said_by_the_claim_or_the_study(tree: dict[str, Any]) -> None:
    numbers = pairs(0.0, spread=0.05)
    strict, _ = settle(tree, [{**LOWER, "matters": 0.001}], numbers)
    assert judged(strict, numbers)[0].outcome == "not settled"
    loose, _ = settle({**tree, "matters": 0.5}, [LOWER], numbers)
    assert judged(loose, numbers)[0].outcome == "no difference"


def test_a_claim_that_the_cap_cannot_settle_is_given_up_with_its_expected_seeds(tree: dict[str, Any]) -> None:
    claim = {**LOWER, "matters": 1e-9}
    plan, rounds = settle(tree, [claim], pairs(0.001, seed=3), {**UNTIL, "to": 20})
    (given_up,) = rounds[-1].given_up
    assert given_up.number == 1
    assert given_up.wanted is not None
    assert given_up.wanted > 20
    assert len(plan.trials) < 60
    assert f"at least {given_up.wanted} seeds, and 20 were allowed" in given_up.verdict.reason


def test_a_claim_of_every_depth_names_the_one_that_holds_it_back(tree: dict[str, Any]) -> None:
    axes = {"model.skip": ["none", "identity"], "model.depth": [2, 3]}
    noise = np.random.default_rng(1).normal(0, 0.1, 60)
    numbers = {}
    for depth, effect in ((2, 1.0), (3, 0.08)):
        numbers[f"skip=none, depth={depth}", "final_loss"] = np.exp(effect + noise).tolist()
        numbers[f"skip=identity, depth={depth}", "final_loss"] = [1.0] * 60
    claim = {**LOWER, "arms": ["skip=none", "skip=identity"]}
    plan = gradlab.plan({**tree, "arms": None, "factor": "model.skip", "axes": axes, "claims": [claim], "seeds": UNTIL})
    following = next_round(GivenNumbers(plan, numbers=numbers))
    assert set(following.seeds) == {"skip=none, depth=3", "skip=identity, depth=3"}
    assert "3 layers" in following.open[0].verdict.reason


def run(out: Path | None, **options: Any) -> Any:
    claim = {**LOWER, "metric": "initial_loss", "op": "<", "matters": 1e-6, "budget": "any"}
    tree = study({"train.epochs": 1}, claims=[claim], seeds={"from": 5, "to": 30, "until": "settled"})
    return gradlab.run(tree, out=out, figures=False, **options)


def test_a_run_that_is_stopped_again_and_again_comes_to_the_same_seeds_verdicts_and_bits(tmp_path: Path) -> None:
    whole = run(tmp_path / "whole")
    trials = len(whole.measured.plan.trials)
    assert trials > 10
    for stop_after in (3, 8, 14, 19):
        seen = 0

        def stop(results: Any, stop_after: int = stop_after) -> None:
            nonlocal seen
            seen += len(results)
            if seen >= stop_after:
                raise KeyboardInterrupt

        run(tmp_path / "pieces", on_results=stop, executor="inline")
    pieces = run(tmp_path / "pieces")
    assert pieces.measured.hash == whole.measured.hash
    assert [trial.id for trial in pieces.measured.plan.trials] == [trial.id for trial in whole.measured.plan.trials]
    assert [v.outcome for v in pieces.verdicts] == [v.outcome for v in whole.verdicts]
    again = gradlab.open_run(tmp_path / "pieces")
    assert again.measured.hash == whole.measured.hash
    ledger = read_ledger(tmp_path / "pieces")
    assert ledger is not None
    rounds = [entry.data["round"] for entry in ledger.of("round")]
    assert rounds == sorted(set(rounds))
    assert not any("seeds were" in remark for remark in pieces.remarks)
    assert gradlab.status(tmp_path / "pieces").left == 0
    assert gradlab.verify(tmp_path / "pieces", sample=2).ok


def test_a_budget_begins_no_further_round_and_the_same_call_goes_on(tmp_path: Path) -> None:
    first = run(tmp_path, budget=0.0)
    assert len(first.measured.plan.trials) == 10
    assert "the run was stopped before" in first.verdicts[0].reason
    assert run(tmp_path).measured.hash == run(None).measured.hash


def test_a_budget_does_not_undo_rounds_that_were_trained_before_it(tmp_path: Path) -> None:
    whole = run(tmp_path)
    assert run(tmp_path, budget=0.0).measured.hash == whole.measured.hash


def test_listed_seeds_cannot_be_continued() -> None:
    with pytest.raises(gradlab.GradlabError, match="seeds"):
        gradlab.plan(study(seeds=[3, 5]), seeds=gradlab.until_settled())
