"""Flaws that all arms share are found and named, and sound studies pass."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_study import claims, failed, study
from typer.testing import CliRunner

import gradlab
from gradlab.audits import study as auditing
from gradlab.audits.audit import FLAWED, Audit
from gradlab.audits.caveats.data import find_repeats
from gradlab.audits.study import audit_plan
from gradlab.cli import app
from gradlab.data.base import Dataset
from gradlab.spec.yaml_text import dump

RUNNER = CliRunner()
FLAWS = {
    "claim_text", "misnamed_arms", "test_rows_in_train", "test_rows_in_validation", "validation_rows_in_train",
    "test_size", "validation_size", "different_train_data", "different_validation_data", "different_test_data",
    "different_losses", "tuned_from_one_value", "tuned_on_test", "tuned_on_train", "target_on_test", "unseen_classes",
    "majority_class", "given_away", "hardly_trains", "test_selection",
}  # fmt: skip
"""Codes of everything that this file is about."""


def codes(tree: Any, **options: Any) -> set[str]:
    return {finding.code for finding in gradlab.audit(tree, **options).findings} & FLAWS


def table(rows: int, seed: int = 0, columns: int = 4) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.random.default_rng(seed).standard_normal((rows, columns))


def write(path: Path, x: Any, y: Any = None) -> str:
    np.savez(path, x=x, y=np.arange(len(x)) % 2 if y is None else y)
    return str(path)


def of_file(path: str, **data: Any) -> dict[str, Any]:
    tree = study()
    tree["base"] = {**tree["base"], "data": {"task": "file", "path": path, **data}}
    return tree


# ---------------------------------------------------------------------- rows in several splits


def test_a_sound_study_has_no_flaw() -> None:
    found = gradlab.audit(study(claims=[{"text": "The residual net is more accurate", "metric": "test_accuracy",
                                         "arms": ["residual", "plain"], "op": ">"}]))  # fmt: skip
    assert found.passed
    assert not {finding.code for finding in found.findings} & FLAWS


def test_test_rows_that_are_in_the_training_file_fail_the_audit_with_count_and_share(tmp_path: Path) -> None:
    train = table(400)
    path, test = write(tmp_path / "a.npz", train), write(tmp_path / "b.npz", train[:150])
    found = gradlab.audit(of_file(path, test_path=test, validation=0))
    (leak,) = [finding for finding in found.findings if finding.code == "test_rows_in_train"]
    assert leak.severity == "problem"
    assert leak.numbers == {"rows": 150, "share": 1.0, "nearly": 0}
    assert found.fair
    assert not found.passed
    assert found.mark == FLAWED


def test_every_row_three_times_leaks_through_a_random_split_into_validation_and_test(tmp_path: Path) -> None:
    path = write(tmp_path / "a.npz", np.tile(table(300), (3, 1)), np.tile(np.arange(300) % 2, 3))
    found = codes(of_file(path, test=0.2, validation=0.2))
    assert {"test_rows_in_train", "test_rows_in_validation", "validation_rows_in_train"} <= found


def test_copies_with_jitter_or_rounding_are_found_as_nearly_equal() -> None:
    x = table(300)
    near = x[:100] + 1e-4 * table(100, 1)
    data = Dataset(np.concatenate([x, near]), np.zeros(400, int), train=np.arange(300), test=np.arange(300, 400))
    found = find_repeats(data, "test", "train")
    assert (found.equal, found.near) == (0, 100)


def test_a_few_repeated_rows_are_a_remark_and_no_failure(tmp_path: Path) -> None:
    train, test = table(400), table(150, 1)
    test[:5] = train[:5]
    tree = of_file(write(tmp_path / "a.npz", train), test_path=write(tmp_path / "b.npz", test), validation=0)
    assert codes(tree) == {"test_rows_in_train"}
    assert gradlab.audit(tree).passed


@pytest.mark.parametrize("columns", [1, 2, 4, 30])
def test_independent_draws_are_not_repeats(columns: int) -> None:
    data = Dataset(table(20_000, 3, columns), np.zeros(20_000, int), train=np.arange(15_000),
                   test=np.arange(15_000, 20_000))  # fmt: skip
    assert find_repeats(data, "test", "train").count == 0


def test_a_leak_into_a_test_set_that_no_result_rests_on_does_not_fail(tmp_path: Path) -> None:
    path = write(tmp_path / "a.npz", table(400))
    tree = of_file(path, test_path=path, validation=0) | {"headline": {"metric": "final_loss"}}
    assert codes(tree) == {"test_rows_in_train"}
    assert gradlab.audit(tree).passed


# ---------------------------------------------------------------------- small, different and odd test sets


@pytest.mark.parametrize(
    ("rows", "worth", "told"),
    [
        (4, "one row is 25 points of accuracy", "it can tell nothing"),
        (12, "one row is 8.33 points of accuracy", "6 rows: 50 points"),
    ],
)
def test_a_small_test_set_says_what_one_row_is_worth_and_what_it_can_resolve(rows: int, worth: str, told: str) -> None:
    (found,) = [f for f in gradlab.audit(study({"data.test": rows})).findings if f.code == "test_size"]
    assert found.numbers == {"rows": rows}
    assert told in found.words
    assert worth in found.words


def test_a_small_test_set_that_no_result_rests_on_is_no_matter() -> None:
    assert not codes(study({"data.test": 4}, headline={"metric": "final_loss"}))


def test_a_few_validation_rows_that_decide_when_training_ends_are_named(tmp_path: Path) -> None:
    path, few = write(tmp_path / "a.npz", table(400)), write(tmp_path / "b.npz", table(3, 1), [0, 1, 0])
    tree = of_file(path, validation_path=few, test=0.5)
    assert "validation_size" not in codes(tree)
    tree["base"]["train"] = {**tree["base"]["train"], "early_stopping": {"by": "validation_loss"}}
    assert "validation_size" in codes(tree)


@pytest.mark.parametrize(
    ("path", "values", "expected"),
    [
        ("data.noise", (0.1, 0.4), {"different_test_data"}),
        ("data.samples", (64, 128), {"different_test_data"}),
        ("data.test", (120, 240), {"different_test_data"}),
        ("train.lr", (0.01, 0.02), set()),
    ],
)
def test_a_factor_that_changes_the_test_set_is_fair_and_named(path: str, values: Any, expected: set[str]) -> None:
    tree = study(factor=path, arms={f"arm {place}": {path: value} for place, value in enumerate(values)})
    assert gradlab.audit(tree).passed
    assert codes(tree) == expected


def test_another_scaling_or_more_training_images_is_the_same_exam() -> None:
    digits = {"task": "mnist", "train": 100, "validation": 0, "test": 200}
    for path, values in (("data.pixels", ("unit", "raw")), ("data.train", (100, 150))):
        tree = study(factor=path, arms={"a": {path: values[0]}, "b": {path: values[1]}})
        tree["base"] = {**tree["base"], "data": digits}
        assert "different_test_data" not in codes(tree)


def test_training_losses_of_different_training_data_are_different_exams() -> None:
    data = {"task": "identity", "dim": 4, "samples": 32}
    tree = study(factor="data.half_range", arms={"a": {}, "b": {"data.half_range": 2.0}})
    tree["base"] = {**tree["base"], "data": data, "train": {**tree["base"]["train"], "loss": "mse"}}
    assert codes(tree | {"headline": {"metric": "final_loss"}}) == {"different_train_data"}


def test_losses_of_different_functions_are_different_measures() -> None:
    data = {"task": "identity", "dim": 4, "samples": 32}
    tree = study(factor="train.loss", arms={"mse": {"train.loss": "mse"}, "mean": {"train.loss": "mean_output"}})
    tree["base"] = {**tree["base"], "data": data}
    assert codes(tree | {"headline": {"metric": "final_loss"}}) == {"different_losses"}


def test_a_sorted_file_that_is_cut_has_classes_that_are_never_trained_on(tmp_path: Path) -> None:
    path = write(tmp_path / "a.npz", table(360), np.repeat([0, 1, 2], 120))
    assert "unseen_classes" in failed(of_file(path, test_rows=[240, 360], validation=0))


def test_a_dominant_class_is_named_with_the_claims_that_it_would_fulfill(tmp_path: Path) -> None:
    y = (np.arange(600) % 20 == 0).astype(int)
    tree = of_file(write(tmp_path / "a.npz", table(600), y), test=0.5, validation=0)
    tree["claims"] = [{"text": "It learns", "metric": "test_accuracy", "arms": "residual", "op": ">", "value": 0.8}]
    (found,) = [f for f in gradlab.audit(tree).findings if f.code == "majority_class"]
    assert "Claim 1 would hold" in found.words


@pytest.mark.parametrize("target", ["class", "number"])
def test_an_input_column_that_is_the_target_is_named(tmp_path: Path, target: str) -> None:
    x = table(400)
    y = np.arange(400) % 3 if target == "class" else x @ [1.0, 2.0, 3.0, 4.0]
    with_target = np.column_stack([x, 7 - 2 * y])
    loss, metric = ("cross_entropy", "test_accuracy") if target == "class" else ("mse", "test_loss")
    for inputs, expected in ((x, False), (with_target, True)):
        tree = of_file(write(tmp_path / "a.npz", inputs, y), test=0.5) | {"headline": {"metric": metric}}
        tree["base"]["train"] = {**tree["base"]["train"], "loss": loss}
        assert ("given_away" in codes(tree)) == expected


def test_a_rate_at_which_no_arm_moves_is_named_and_the_usual_ones_are_not() -> None:
    assert "hardly_trains" in codes(study({"train.lr": 1e-8}))
    assert "hardly_trains" not in codes(study({"train.lr": 1e-3}))
    assert "hardly_trains" not in codes(study({"train.epochs": None, "train.steps": 0}, headline=None))


# ---------------------------------------------------------------------- tuning and targets


def tuned(**tune: Any) -> dict[str, Any]:
    tree = study(tune={"train.lr": [0.01, 0.02, 0.05], "seeds": 2, **tune})
    tree["base"] = {**tree["base"], "data": {"task": "mnist", "train": 60, "validation": 40, "test": 200}}
    return tree


@pytest.mark.parametrize(
    ("tune", "expected"),
    [
        ({}, set()),
        ({"train.lr": {"log": [1e-3, 1e-1]}, "search": {"random": 1}}, {"tuned_from_one_value"}),
        ({"train.lr": [0.01]}, {"tuned_from_one_value"}),
        ({"by": "train_loss"}, {"tuned_on_train"}),
        ({"by": "final_loss"}, {"tuned_on_train"}),
        ({"by": "test_accuracy"}, {"tuned_on_test"}),
    ],
)
def test_a_tuning_that_chooses_nothing_or_by_the_wrong_samples_is_named(tune: Any, expected: set[str]) -> None:
    found = gradlab.audit(tuned(**tune))
    assert {finding.code for finding in found.findings} & FLAWS == expected
    assert ("own best" in found.answer) == ("tuned_from_one_value" not in expected)


def test_tuning_by_the_training_loss_is_right_where_the_training_loss_is_judged() -> None:
    assert not codes(tuned(by="final_loss") | {"headline": {"metric": "final_loss"}})


def test_a_reduced_budget_does_not_turn_one_candidate_into_a_choice() -> None:
    tree = tuned(**{"train.lr": {"log": [1e-3, 1e-1]}, "search": {"random": 1}}) | {"quick": {"seeds": 1}}
    assert "tuned_from_one_value" in codes(tree, quick=True)


def test_a_target_on_the_test_set_is_named() -> None:
    for metric, expected in (("test_accuracy", {"target_on_test"}), ("train_accuracy", set())):
        assert codes(study(measure={"target": {"metric": metric, "value": 0.9}})) == expected


# ---------------------------------------------------------------------- where it is shown


def contradiction() -> dict[str, Any]:
    return claims({"text": "The residual net is better than the plain one", "op": "<"})


def test_a_flaw_is_exit_code_3_with_its_code_in_json_and_its_words_in_the_answer(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(dump(contradiction()), encoding="utf8")
    told = RUNNER.invoke(app(), ["audit", str(path)])
    assert told.exit_code == 3
    assert "Claim 1 contradicts itself" in " ".join(told.stdout.split())
    found = json.loads(RUNNER.invoke(app(), ["audit", str(path), "--json"]).stdout)
    assert (found["passed"], found["same_setup_except_factor"]) == (False, True)
    first = found["findings"][0]
    assert (first["code"], first["fails"]) == ("claim_text", True)


def test_a_flaw_survives_storing_and_reading() -> None:
    found = gradlab.audit(contradiction())
    again = Audit.from_json(json.loads(json.dumps(found.to_json())))
    assert again.findings == found.findings
    assert (again.passed, again.flaws, again.mark) == (False, found.flaws, FLAWED)


def test_an_undeclared_difference_has_a_code_too() -> None:
    tree = study(arms={"plain": {}, "residual": {"model.skip": "identity", "train.lr": 0.5}})
    first = gradlab.audit(tree).findings[0]
    assert (first.code, first.severity) == ("undeclared_difference", "problem")


def test_a_run_of_a_flawed_study_says_so_on_top_and_exits_with_3(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(dump({**contradiction(), "figures": []}), encoding="utf8")
    told = RUNNER.invoke(app(), ["run", str(path), "--out", str(tmp_path / "run")])
    assert told.exit_code == 3, told.output
    assert "FLAWED STUDY" in told.stdout
    for name in ("report.md", "report.html"):
        text = (tmp_path / "run" / name).read_text(encoding="utf8")
        assert "Flawed study" in text
        assert "Claim 1 contradicts itself" in text


# ---------------------------------------------------------------------- what an audit costs


def test_large_networks_are_compared_at_fewer_seeds_and_a_long_audit_is_announced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = gradlab.plan(study(seeds=5))
    numbers = auditing._count_numbers(plan, auditing.pairs_of(plan.study, [each.group for each in plan.groups]))
    monkeypatch.setattr(auditing, "MOST_NUMBERS", 2 * numbers)
    found = audit_plan(plan)
    assert "2 of 5 seeds" in found.compared
    assert any("too large" in sentence for sentence in found.cannot_see)
    assert not capsys.readouterr().err
    monkeypatch.setattr(auditing, "LONG", 0.0)
    audit_plan(plan)
    assert "audit: 1 pair at 2 seeds, about" in capsys.readouterr().err


def test_many_steps_count_like_parameters_in_the_cost_of_an_audit() -> None:
    plan = gradlab.plan(study(seeds=5), overrides={"train.epochs": 10**7})
    assert auditing._count_numbers(plan, ()) > 2 * 10**7
