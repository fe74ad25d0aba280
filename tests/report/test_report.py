from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import gradlab
from gradlab.errors import InvalidInput
from gradlab.report.charts import BoxChart, Line, LineChart
from gradlab.report.draw import draw_one, render_image
from gradlab.report.markdown import escape
from gradlab.tell.answers import describe_headline

HOSTILE = '<script>alert("x")</script> | `rm` ![x](http://e.vil) *b*'


@pytest.fixture
def result(tree: dict[str, Any]) -> gradlab.Result:
    return gradlab.run(tree)


@pytest.mark.shipped
def test_every_link_of_the_report_leads_to_a_file(tree: dict[str, Any], tmp_path: Path) -> None:
    gradlab.run({**tree, "figures": None}, out=tmp_path / "run")
    report = (tmp_path / "run/report.md").read_text()
    links = re.findall(r"!\[.*?\]\((.*?)\)", report)
    assert len(links) >= 6
    for link in links:
        assert (tmp_path / "run" / link).is_file()


def test_the_report_opens_with_question_and_answer_and_ends_with_how_to_run_it_again(result: gradlab.Result) -> None:
    lines = result.report().split("\n")
    assert lines[0] == f"# {result.story.question}"
    assert lines[2] == f"**{escape(result.answer)}**"
    assert result.story.rerun.command in "\n".join(lines[-12:])
    assert "Declared factor: `model.skip`" in result.report()


def test_hostile_names_are_text_in_markdown_html_and_figures(tree: dict[str, Any], tmp_path: Path) -> None:
    tree["arms"] = {"plain": {}, HOSTILE: {"model.skip": "identity"}}
    tree["question"] = HOSTILE
    result = gradlab.run(tree, out=tmp_path / "run")
    for text in (result.report(), result._repr_html_(), render_image(result.figure("training_loss"), "svg").decode()):
        assert "<script>" not in text
    assert "![x](http" not in result.report()
    row = next(line for line in result.report().split("\n") if line.startswith("| &lt;script"))
    assert len(re.findall(r"(?<!\\)\|", row)) == len(re.findall(r"(?<!\\)\|", "| plain | 2 | a | b | c |"))


def test_escape_leaves_ordinary_text_alone() -> None:
    assert escape("5.3× better, α = 0.5") == "5.3× better, α = 0.5"
    assert escape("a_b") == "a\\_b"


def test_a_notebook_shows_question_answer_figure_and_tables(result: gradlab.Result) -> None:
    html = result._repr_html_()
    assert result.story.question in html
    assert html.count("<table>") == 2  # results, and theory beside measurement
    assert "<svg" in html


def test_figures_are_drawn_on_given_axes_and_the_same_bytes_twice(result: gradlab.Result) -> None:
    from matplotlib.figure import Figure

    ax = Figure().add_subplot()
    result.figure("training_loss", ax=ax)
    assert ax.get_title(loc="left") == "Training loss"
    assert ax.get_yscale() == "log"
    assert render_image(result.figure("training_loss"), "svg") == render_image(result.figure("training_loss"), "svg")
    ElementTree.fromstring(render_image(result.figure("gradient_by_layer"), "svg"))
    with pytest.raises(InvalidInput, match="'nothing'; accepted: training_loss"):
        result.figure("nothing")


def test_exact_zeros_are_drawn_on_a_marked_floor_not_dropped() -> None:
    from matplotlib.figure import Figure

    x, y = np.array([1.0, 2, 3]), np.array([0.0, 1e-12, 1e-3])
    ax = Figure().add_subplot()
    draw_one(LineChart("t", "layer", "g", (Line("a", x, y, y, y, 0, markers=True),), log_y=True), ax)
    line = ax.get_lines()[0]
    assert 0 < line.get_ydata()[0] <= 1e-13
    assert "exactly 0" in ax.get_legend_handles_labels()[1]


def test_a_figure_without_zeros_has_no_floor() -> None:
    from matplotlib.figure import Figure

    x = np.array([1.0, 2.0])
    ax = Figure().add_subplot()
    draw_one(LineChart("t", "x", "y", (Line("a", x, x, x, x, 0),), log_y=True), ax)
    assert "exactly 0" not in ax.get_legend_handles_labels()[1]


def test_boxes_show_quantiles() -> None:
    sample = np.linspace(1, 101, 1001)
    canvas = draw_one(BoxChart("t", "layer", "ratio", (1,), (sample,)))
    median = next(line for line in canvas.axes[0].get_lines() if line.get_linewidth() == 2.4)
    assert np.median(median.get_ydata()) == pytest.approx(51)


def test_an_interrupted_run_keeps_its_finished_trials_and_says_so(tree: dict[str, Any], tmp_path: Path) -> None:
    seen = []

    def stop_after_two(results: Any) -> None:
        seen.extend(results)
        if len(seen) == 2:
            raise KeyboardInterrupt

    result = gradlab.run(tree, out=tmp_path / "run", on_results=stop_after_two, executor="inline")
    assert result.stopped
    assert result.unfinished
    assert len(result.trials()) == 2
    assert "Unfinished" in (tmp_path / "run/report.md").read_text()


def test_a_run_interrupted_before_the_first_trial_still_reports(tree: dict[str, Any], tmp_path: Path) -> None:
    result = gradlab.run(tree, out=tmp_path / "run", on_start=lambda tally: tally.monitor.stop())
    assert (tmp_path / "run/report.md").is_file()
    assert result.answer == describe_headline(result.measured)[0]
    assert result.story.facts[-1].code == "trials_unfinished"


def test_a_quick_run_labels_itself() -> None:
    assert "Reduced budget" in gradlab.run("gradflow", quick=True, seeds=3).report()


def test_tables_frames_and_json_agree(result: gradlab.Result) -> None:
    table = result.table().set_index(["group", "metric"])
    mean = result.trials().query("group == 'plain'").final_loss.mean()
    assert table.loc[("plain", "final_loss"), "mean"] == pytest.approx(mean)
    json = result.to_json()
    assert json["groups"][0]["metrics"]["final_loss"]["mean"] == pytest.approx(mean)
    assert json["trials"] == {"done": 4, "failed": 0, "diverged": 0}
    assert json["groups"][1]["settings"] == {"model.skip": "identity"}
    assert set(json) >= {"study", "run", "audit", "trials", "groups", "claims"}


def test_a_figure_of_nothing_but_zeros_shows_them() -> None:
    from matplotlib.figure import Figure

    x = np.array([1.0, 2.0])
    ax = Figure().add_subplot()
    draw_one(LineChart("t", "x", "y", (Line("a", x, 0 * x, 0 * x, 0 * x, 0),), log_y=True), ax)
    assert "exactly 0" in ax.get_legend_handles_labels()[1]


def test_an_interrupted_run_counts_the_seeds_it_has(tree: dict[str, Any]) -> None:
    seen = []

    def stop(results: Any) -> None:
        seen.extend(results)
        if len(seen) == 4:
            raise KeyboardInterrupt

    result = gradlab.run({**tree, "seeds": 10}, on_results=stop, executor="inline")
    assert "8 pairs without" in result.answer
    assert "not settled" in result.answer
    assert "of 2 seeds" in result.charts["training_loss"].note


def test_a_result_from_python_says_how_it_was_called() -> None:
    result = gradlab.run("gradflow", seeds=2, overrides={"model.width": 10}, quick=True)
    assert "gradlab.run('gradflow', overrides={'model.width': 10}, seeds=2, quick=True)" in result.report()


def test_dollars_underscores_and_foreign_letters_are_plain_text_in_figures(
    tree: dict[str, Any], tmp_path: Path
) -> None:
    from matplotlib.text import Text

    tree["question"] = "cost $x_{ and $ is 深度?"
    tree["arms"] = {"_hidden": {}, "$a": {"model.skip": "identity"}}
    result = gradlab.run(tree, out=tmp_path / "run")
    canvas = result.figure("training_loss")
    labels = [text.get_text().strip() for text in canvas.findobj(Text)]
    assert {"_hidden", r"\$a"} <= set(labels)


def test_training_loss_comes_first_where_a_study_names_no_figures(result: gradlab.Result) -> None:
    assert next(iter(result.charts)) == "training_loss"


def test_figures_that_cannot_be_made_are_named_in_the_report(tree: dict[str, Any], tmp_path: Path) -> None:
    part = tmp_path / "bad.py"
    part.write_text(
        "from gradlab.report.figures.base import Figure\nclass Bad(Figure):\n    'Fails.'\n    name = 'bad'\n"
        "    def chart(self, measured): raise RuntimeError('no luck')\n"
    )
    tree |= {"parts": [str(part)], "figures": ["training_loss", "bad", "gradient_ratio_by_layer"], "arms": {"one": {}}}
    report = gradlab.run(tree).report()
    assert "bad: RuntimeError: no luck" in report
    assert "gradient\\_ratio\\_by\\_layer: nothing" in report


def test_a_result_has_a_short_repr(result: gradlab.Result) -> None:
    assert len(repr(result)) < 500


def test_a_figure_that_cannot_be_drawn_is_named_and_the_report_is_written(
    tree: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gradlab.report.charts import LineChart

    def fail(self: Any, ax: Any) -> None:
        raise ValueError("no ink")

    tree["figures"] = ["training_loss", "gradient_heat_map"]
    monkeypatch.setattr(LineChart, "draw_marks", fail)
    gradlab.run(tree, out=tmp_path / "run")
    text = (tmp_path / "run/report.md").read_text()
    assert "training\\_loss: ValueError: no ink" in text
    assert {path.stem for path in (tmp_path / "run/figures").iterdir()} == {"overview", "gradient_heat_map"}


def test_a_mixture_of_collapsed_and_healthy_networks_is_not_told_by_its_mean() -> None:
    from sweeps import GRID, measured, mixture, mnist

    from gradlab.report.tables import tabulate_groups
    from gradlab.tell.answers import answer

    found = measured(mnist(axes=GRID), mixture)
    assert "30 layers, no skip 4 of 5 at chance, median 0.1" in str(answer(found))
    table = tabulate_groups(found)
    row = next(row for row in table.rows if row[0] == "30 layers, no skip")
    assert row[table.header.index("test accuracy")] == "0.1000 (0.100 … 0.700)"


def test_heat_maps_and_axes_draw_infinities_zeros_and_single_values() -> None:
    from gradlab.report.charts import HeatChart, HeatPanel
    from gradlab.report.draw import draw_one, render_image

    values = np.array([[0.0, np.inf, 1.0], [np.nan, 1.0, 1.0]])
    chart = HeatChart("Title", "step", "layer", (HeatPanel(("a", "b"), values, (0, 1, 2)),), "label")
    assert render_image(draw_one(chart), "png").startswith(b"\x89PNG")


def test_a_study_of_no_steps_speaks_of_no_training(tree: dict[str, Any]) -> None:
    tree["base"]["train"]["steps"] = 0
    tree["measure"] = {"layers": ["start"]}
    result = gradlab.run({**tree, "figures": ["gradient_by_layer", "activation_std_by_layer", "signal_by_layer"]})
    assert [chart.title.rpartition(", ")[2] for chart in result.charts.values()] == ["at initialization"] * 3
    assert "measured at initialization" in result.report()
    assert "0 updates" not in result.report()
    assert "after training" not in result.report().lower()


def test_an_unfair_comparison_is_marked_by_a_field_not_by_what_a_note_says() -> None:
    from matplotlib.colors import to_hex
    from matplotlib.text import Text

    from gradlab.report.look import SOFT, WARNING

    x = np.array([1.0, 2.0])
    line = Line("a", x, x, x, x, 0)
    for note, warning, color in (("line: median", "UNFAIR", WARNING), ("NOT A CONTROLLED arm, by name", "", SOFT)):
        chart = LineChart("t", "x", "y", (line,), note=note, warning=warning)
        texts = {text.get_text(): to_hex(text.get_color()) for text in draw_one(chart).findobj(Text)}
        assert texts[warning or note] == color
        assert texts[note] == SOFT
