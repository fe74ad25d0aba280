"""How a tuning is told: table, figures, notes, JSON, export, page."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import Any

import pytest
from tuned import tuned_tree

import gradlab
from gradlab.errors import InvalidInput
from gradlab.report.charts import Panels, SeedChart, SensitivityChart
from gradlab.spec.base import plain_json
from gradlab.tell.methods import describe_choice, describe_cost, describe_method

FIGURES = ["tuning_curves", "tuned_beside_untuned"]


@pytest.fixture(scope="module")
def result() -> gradlab.Result:
    return gradlab.run({**tuned_tree(), "figures": FIGURES, "seeds": 3}, executor="inline")


def test_the_table_has_arm_value_metric_by_seed_chosen_and_edge(result: gradlab.Result) -> None:
    table = result.tuning
    assert table is not None
    assert list(table.columns) == [
        "arm", "train.lr", "metric", "median", "mean", "best", "worst", "seed -1", "seed -2", "diverged", "chosen",
        "edge",
    ]  # fmt: skip
    assert len(table) == 12
    assert table.groupby("arm").chosen.sum().to_dict() == {"plain": 1, "residual": 1}
    assert (table["median"] == table[["seed -1", "seed -2"]].max(axis=1)).all()


def test_a_study_that_tunes_nothing_has_no_tuning() -> None:
    tree = tuned_tree()
    del tree["tune"]
    plain = gradlab.run(tree, executor="inline", seeds=1)
    assert plain.tuning is None
    assert "tuning" not in plain.to_json()
    with pytest.raises(InvalidInput, match="tunes nothing"):
        plain.export("csv", "tuning")


def test_the_export_has_the_same_rows(result: gradlab.Result) -> None:
    rows = list(csv.DictReader(io.StringIO(result.export("csv", "tuning").decode())))
    assert len(rows) == 12
    assert {row["arm"]: row["train.lr"] for row in rows if row["chosen"] == "true"} == {
        arm: f"{candidate.values['train.lr']:g}"
        for arm, candidate in result.measured.plan.tuning.chosen.items()  # type: ignore[attr-defined]
    }


def test_the_object_holds_choice_cost_and_everything_tried(result: gradlab.Result) -> None:
    tuning = plain_json(result.to_json())["tuning"]
    assert (tuning["by"], tuning["better"], tuning["complete"]) == ("final_loss", "lower", True)
    assert tuning["seeds"] == [-1, -2]
    assert tuning["cost"]["trials"] == 24
    assert 0 < tuning["cost"]["share"] < 1
    assert len(tuning["tried"]) == 12


def test_the_report_says_what_was_chosen_what_it_cost_and_where_untuned_numbers_come_from(
    result: gradlab.Result,
) -> None:
    text = result.report().replace("\\", "")
    told = [describe_choice(result.story.tuning, result.measured), describe_cost(result.story.tuning)]
    told += [describe_method(result.story.tuning), *(table.title for table in result.story.tables)]
    told += [note for table in result.story.tables for note in table.notes]
    for sentence in told:
        assert sentence in text


def test_the_sensitivity_curve_marks_the_chosen_value(result: gradlab.Result) -> None:
    chart = result.charts["tuning_curves"]
    assert isinstance(chart, SensitivityChart)
    assert chart.log_x
    assert chart.untuned == 0.01
    chosen = result.measured.plan.tuning.chosen  # type: ignore[attr-defined]
    for curve in chart.curves:
        assert curve.chosen is not None
        assert curve.x[curve.chosen] == chosen[curve.arm].values["train.lr"]
        assert (curve.best <= curve.median).all()
        assert (curve.median <= curve.worst).all()
    assert len(chart.table()[1]) == 12
    assert "Chosen, plain: learning rate" in chart.description


def test_tuned_and_untuned_stand_beside_each_other_on_the_same_seeds(result: gradlab.Result) -> None:
    chart = result.charts["tuned_beside_untuned"]
    assert isinstance(chart, SeedChart)
    assert chart.seeds == (0, 1, 2)
    untuned = gradlab.run({**tuned_tree(), "tune": None}, executor="inline", seeds=3)
    assert [column.state for column in chart.columns] == ["untuned", "tuned"] * 2
    for column in chart.columns:
        run = untuned if column.state == "untuned" else result
        assert list(column.values) == list(run.measured.values("final_loss", column.group).values())


def test_figures_are_drawn_and_the_page_is_made(result: gradlab.Result, tmp_path: Path) -> None:
    result.save(tmp_path / "run")
    for name in FIGURES:
        assert (tmp_path / "run" / "figures" / f"{name}.png").stat().st_size > 10_000
    page = (tmp_path / "run" / "report.html").read_text()
    assert all(chart.title in page for chart in result.charts.values())
    assert all(table.title in page for table in result.story.tables)


def tuned(**tune: Any) -> gradlab.Result:
    return gradlab.run({**tuned_tree(**tune), "figures": FIGURES}, executor="inline", seeds=2)


def test_several_settings_get_a_panel_each_and_words_get_names(tmp_path: Path) -> None:
    result = tuned(**{"train.lr": [1e-3, 1e-2, 1e-1], "train.optimizer": ["adam", "sgd", "momentum"], "seeds": 1})
    chart = result.charts["tuning_curves"]
    assert isinstance(chart, Panels)
    assert [panel.x_label for panel in chart.panels] == ["learning rate", "optimizer"]
    assert [name for _, name in chart.panels[1].ticks] == ["adam", "sgd", "momentum"]
    result.figure("tuning_curves").savefig(tmp_path / "panels.png")
    assert result.tuning is not None
    assert b"momentum" in result.export("csv", "tuning")


def test_losses_that_explode_are_off_the_axis_and_diverged_ones_are_told(tmp_path: Path) -> None:
    result = tuned(**{"train.lr": [1e-2, 1e-1, 3.0, 1e6], "train.optimizer": ["sgd"], "seeds": 1})
    chart = result.charts["tuning_curves"]
    assert isinstance(chart, SensitivityChart)
    assert chart.cap is not None
    assert any(math.isinf(value) for curve in chart.curves for value in curve.median)
    result.figure("tuning_curves").savefig(tmp_path / "diverged.png")
    assert "diverged" in result.report()


def test_an_arm_that_diverges_at_every_value_is_named() -> None:
    result = tuned(**{"train.lr": [1e5, 3e5, 1e6], "train.optimizer": ["sgd"], "seeds": 1})
    assert any("residual diverged" in note for note in result.story.notes)
    assert not any("plain diverged" in note for note in result.story.notes)


def test_figures_of_a_run_until_settled_show_its_evidence_and_count_planned_trials_only() -> None:
    claim = {"text": "t", "metric": "final_loss", "arms": ["residual", "plain"], "op": "ratio", "value": [0.5, 1.03]}
    tree = {**tuned_tree(), "figures": FIGURES, "claims": [{**claim, "budget": "any"}]}
    result = gradlab.run(tree, seeds={"from": 5, "to": 12, "until": "settled"}, executor="inline")
    assert len(result.measured.all_seeds) > 5
    assert set(result.charts) == {*FIGURES, "evidence"}
    chart = result.charts["tuned_beside_untuned"]
    assert isinstance(chart, SeedChart)
    assert {len(column.values) for column in chart.columns} == {len(chart.seeds)}
    assert "no finite number" not in chart.note
