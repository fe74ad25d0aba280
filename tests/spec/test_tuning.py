"""`tune:` in a study: what is accepted, what is refused and why, and how overrides and a reduced budget change it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tuned import tuned_tree

import gradlab
from gradlab.errors import StudyError
from gradlab.spec.schema import study_schema
from gradlab.spec.study import Study, Tune


def tune_of(**options: Any) -> Tune:
    tune = gradlab.load(tuned_tree(), **options).study.tune
    assert tune is not None
    return tune


def test_a_range_becomes_its_values_and_the_seeds_are_negative() -> None:
    tune = tune_of()
    assert tune.paths == {"train.lr": (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 1e1)}
    assert tune.tuning_seeds == (-1, -2)


def test_no_study_can_ask_for_a_tuning_seed() -> None:
    with pytest.raises(StudyError, match="seeds"):
        gradlab.load(tuned_tree(), seeds=[-1])


def test_a_study_survives_being_written_and_read_again() -> None:
    study = gradlab.load({**tuned_tree(search={"random": 4}), "seeds": 2}).study
    again = Study.model_validate(json.loads(json.dumps(study.model_dump(mode="json", exclude_unset=True))))
    assert again.tune == study.tune


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ({}, "name what is tuned"),
        ({"train.lr": {"log": [1e-3, 1e-1]}}, "give the number of points"),
        ({"train.lr": {"log": [0, 1], "points": 3}}, "above 0"),
        ({"train.epochs": [1, 2]}, "cannot be tuned"),
        ({"train.lr": [1.0], "seedz": 2}, "did you mean 'seeds'"),
        ({"train.lr": [1.0], "budget": {"train.lr": 3}}, "is not a budget"),
        ({"train.lr": [1.0], "arms": {"plain": {"train.clip": [1.0]}}}, "is not a tuned path"),
        ({"train.lr": [1.0], "arms": {"plane": {"train.lr": [1.0]}}}, "did you mean 'plain'"),
        ({"train.lrr": [1.0]}, "train.lrr"),
        ({"train.lr": [1.0], "by": "test_acuracy"}, "did you mean 'test_accuracy'"),
        ({"train.lr": [1.0], "by": "seconds_per_epoch"}, "wall times differ"),
        ({"train.lr": [1.0], "by": "flops"}, "neither more nor less"),
        ({"train.lr": [1.0], "by": "validation_loss"}, "needs validation samples"),
        ({"train.lr": [1.0], "by": "train_accuracy"}, "regression"),
        ({"train.lr": [1.0], "by": "steps_to_target"}, "measure.target"),
    ],
)
def test_a_section_that_cannot_work_is_refused_with_the_reason(section: dict[str, Any], told: str) -> None:
    with pytest.raises(StudyError, match=told):
        gradlab.plan({**tuned_tree(), "tune": {"by": "final_loss", **section} if section else {}})


def test_an_axis_cannot_be_tuned() -> None:
    tree = tuned_tree()
    tree |= {"arms": None, "factor": "train.lr", "axes": {"train.lr": [0.1, 0.2]}, "claims": []}
    with pytest.raises(StudyError, match="the study sweeps"):
        gradlab.load(tree)


def test_overrides_reach_into_the_section() -> None:
    changed = tune_of(overrides=["tune.seeds=5", "tune.train.lr=[0.1, 0.2]", "tune.by=last_loss"])
    assert (changed.seeds, changed.by, changed.paths["train.lr"]) == (5, "last_loss", (0.1, 0.2))
    assert len(tune_of(overrides=["tune.train.lr.points=4"]).paths["train.lr"]) == 4
    assert tune_of(overrides=["tune.budget.train.steps=3"]).budget == {"train.steps": 3}


def test_a_reduced_budget_reduces_the_tuning() -> None:
    tree = {**tuned_tree(), "quick": {"seeds": 1}}
    quick = gradlab.load(tree, quick=True).study.tune
    assert quick is not None
    assert (quick.seeds, len(quick.paths["train.lr"])) == (1, 3)
    own = gradlab.load({**tree, "quick": {"tune.seeds": 2}}, quick=True).study.tune
    assert own is not None
    assert (own.seeds, len(own.paths["train.lr"])) == (2, 6)
    listed = {**tuned_tree(**{"train.lr": [1, 2, 3, 4, 5]}), "quick": {"seeds": 1}}
    assert gradlab.load(listed, quick=True).study.tune.paths["train.lr"] == (1, 3, 5)  # type: ignore[union-attr]


def test_the_schema_accepts_paths_in_the_section() -> None:
    tune = study_schema()["$defs"]["Tune"]
    assert any("train" in pattern for pattern in tune["patternProperties"])
