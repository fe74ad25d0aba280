"""Figures: nothing overlaps, every group is shown or said not to be, and the numbers drawn are the numbers kept."""

from __future__ import annotations

import csv
import io
from typing import Any

import numpy as np
import pytest
from figure_boxes import find_collisions, find_end_names, find_frames, find_names_on_data
from sweeps import GRID, measured, mnist

import gradlab
from gradlab.errors import InvalidInput
from gradlab.report.charts import AxisChart, HeatChart, Line, LineChart, Offer, Panels, ParetoChart
from gradlab.report.draw import FORMATS, draw_one, draw_overview, make_chart, make_charts, render_chart
from gradlab.report.export import render_csv
from gradlab.report.look import DARK, GROUND, HUES, dark_colors, shade
from gradlab.report.pictures import FigureRequest, all_charts
from gradlab.report.scheme import MOST_CURVES, MOST_PANELS, make_scheme

SMALL = {"data.train": 600, "data.test": 200}
STUDIES: dict[str, dict[str, Any]] = {
    "identity": {},
    "identity-controlled": {"train.steps": 20},
    "gradflow": {},
    "depth-controlled": {**SMALL, "data.validation": 200, "measure.layers": ["start", 2, "end"]},
    "scaling-width": {**SMALL, "train.epochs": 3},
    "scaling-depth": {**SMALL, "train.epochs": 3},
}
ALL = [name for name in gradlab.list_studies() if name not in STUDIES]


def flat(settings: Any, seed: int) -> tuple[dict[str, float], dict[str, list[float]]]:
    return {"test_accuracy": 0.5 + 0.01 * seed}, {}


def quick(name: str, overrides: dict[str, Any]) -> gradlab.Result:
    seeds = 30 if name == "gradflow" else 2
    return gradlab.run(name, quick=True, seeds=seeds, overrides=overrides)


@pytest.fixture(scope="module", params=list(STUDIES))
def result(request: pytest.FixtureRequest) -> gradlab.Result:
    return quick(request.param, STUDIES[request.param])


@pytest.fixture(scope="module")
def grid() -> gradlab.Result:
    """Depth × skip × init, 12 groups with layers."""
    return quick("depth-controlled", STUDIES["depth-controlled"])


def check_texts(result: gradlab.Result) -> None:
    charts = all_charts(result.story.pictures)
    assert charts
    found = {}
    for name, chart in charts.items():
        if name == "pareto":
            continue  # its places are wall times: another picture each time; tests below give it fixed offers
        for size in FORMATS:
            canvas = draw_one(chart, size=size)
            wrong = find_collisions(canvas) + find_names_on_data(canvas)
            if wrong:
                found[f"{name}, {size}"] = wrong[:3]
    drawn = {name: chart for name, chart in result.charts.items() if name != "pareto"}
    overview = draw_overview(drawn, result.story.question)
    assert not found
    assert not find_collisions(overview) + find_names_on_data(overview)


@pytest.mark.thorough
def test_no_text_of_any_figure_overlaps_another_or_leaves_the_canvas(result: gradlab.Result) -> None:
    check_texts(result)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_no_text_overlaps_in_any_built_in_study(name: str) -> None:
    study = gradlab.plan(name).study
    overrides: dict[str, Any] = {}
    if study.base["data"]["task"] == "mnist":
        overrides = {**SMALL, "measure.layers": ["start", 2, "end"]}
        overrides |= {"data.validation": 200} if study.base["data"].get("validation") else {}
    check_texts(quick(name, overrides))


def shown_groups(chart: Any) -> int:
    """How many groups a chart of curves or heat maps shows."""
    if isinstance(chart, HeatChart):
        return len(chart.heats)
    inner = chart.charts if isinstance(chart, Panels) else (chart,)
    return sum(sum(len(d.groups) for d in c.lines) if isinstance(c, AxisChart) else len(c.lines) for c in inner)


def test_every_group_is_shown_or_the_caption_says_which_are_not(result: gradlab.Result) -> None:
    total = len(result.measured.group_names)
    for name in result.figure_names():
        chart = result.chart(name)
        inner = chart.charts if isinstance(chart, Panels) else (chart,)
        if name == "schedules" or not all(isinstance(c, AxisChart | LineChart | HeatChart) for c in inner):
            continue
        if name in all_charts(result.story.pictures) and name not in result.charts:
            continue  # a view of the micro-world: two networks
        assert shown_groups(chart) == total or f"of {total} groups" in chart.caption, name


def test_panels_have_at_most_four_curves(result: gradlab.Result) -> None:
    for chart in make_charts(result.measured)[0].values():
        for panel in chart.panels:
            if isinstance(panel, LineChart):
                assert len(panel.lines) <= MOST_CURVES


def test_more_panels_than_fit_are_cut_to_extremes_and_named_groups_and_the_caption_says_so() -> None:
    depths = list(range(2, 40, 2))
    found = measured(mnist(axes={"model.depth": depths}), flat)
    scheme = make_scheme(found)
    assert len(scheme.strokes) <= MOST_PANELS < len(depths)
    assert {"depth=2", "depth=38"} <= set(scheme.strokes)
    assert scheme.left_out.startswith(f"Shown are {len(scheme.strokes)} of {len(depths)} groups")


def test_hue_is_the_factor_dash_the_second_and_panels_the_ordered_axis(grid: gradlab.Result) -> None:
    scheme = make_scheme(grid.measured)
    assert scheme.facets == ("model.depth",)
    strokes: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for group, stroke in scheme.strokes.items():
        settings = scheme.names.groups[group].settings
        key = str(settings["model.skip"]), settings["model.init"]["kind"]
        strokes.setdefault(key, set()).add((stroke.color, str(stroke.dashes)))
    assert all(len(found) == 1 for found in strokes.values())  # the same in every panel
    colors = {key: next(iter(found))[0] for key, found in strokes.items()}
    dashes = {key: next(iter(found))[1] for key, found in strokes.items()}
    assert colors["none", "he_normal"] == colors["none", "torch_default"] != colors["add_then_activate", "he_normal"]
    assert dashes["none", "he_normal"] == dashes["add_then_activate", "he_normal"] != dashes["none", "torch_default"]


def test_an_ordered_axis_inside_a_panel_goes_from_light_to_dark() -> None:
    axes = {"model.depth": [2, 4, 8], "model.skip": ["none", "identity"]}
    found = measured(mnist(axes=axes), flat)
    scheme = make_scheme(found, facet="skip")
    plain = [scheme.strokes[f"depth={depth}, skip=none"].color for depth in (2, 4, 8)]
    light = [sum(int(color[i : i + 2], 16) for i in (1, 3, 5)) for color in plain]
    assert light == sorted(light, reverse=True)
    assert len(set(light)) == 3
    assert 100 < min(light) < max(light) < 600  # neither black nor white


def test_every_color_of_a_scheme_has_a_counterpart_on_a_dark_ground_and_can_be_seen_on_both() -> None:
    def lightness(color: str) -> float:
        red, green, blue = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
        return 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2

    known = dark_colors()
    for hue in HUES:
        for step in range(7):
            color = shade(hue, step)
            light, dark = lightness(color), lightness(known[color])
            assert 1.05 / (light + 0.05) > 1.7, (hue, step)
            assert (dark + 0.05) / (lightness(DARK[GROUND]) + 0.05) > 2, (hue, step)


def test_facet_color_groups_labels_and_title_are_what_is_asked_for(grid: gradlab.Result) -> None:
    request = FigureRequest(
        groups="depth=10|30, init=he_normal|torch_default", facet="init", color="depth",
        labels={"skip=none": "plain", "skip=add_then_activate": "residual"}, title="My title",
    )  # fmt: skip
    chart = grid.chart("gradient_at_start_by_layer", request)
    assert isinstance(chart, Panels)
    assert chart.title == "My title"
    assert [panel.title for panel in chart.charts] == ["default init", "He init"]
    labels = {line.label for panel in chart.charts for line in panel.lines}  # type: ignore[attr-defined]
    assert labels == {f"{depth} layers, {skip}" for depth in (10, 30) for skip in ("plain", "residual")}
    assert grid.figure("gradient_at_start_by_layer", groups={"depth": 30}, size="slide").get_size_inches()[1] == 7.5


def test_what_chosen_groups_share_is_said_once(grid: gradlab.Result) -> None:
    chart = grid.chart("signal_by_layer", FigureRequest(groups={"depth": 30, "skip": "none"}))
    assert isinstance(chart, LineChart)
    assert [line.label for line in chart.lines] == ["default init", "He init"]
    assert chart.note.startswith("all: 30 layers, no skip; ")


@pytest.mark.parametrize(
    ("name", "request_", "sentence"),
    [
        ("nothing", {}, "there is no figure 'nothing'; accepted: accuracy_by_axis"),
        ("acuracy_by_axis", {}, "did you mean 'accuracy_by_axis'"),
        ("accuracy_by_axis", {"facet": "depth"}, "'depth' is already the x axis"),
        ("accuracy_by_axis", {"color": "skp"}, "they differ in depth, skip, init; did you mean 'skip'"),
        ("accuracy_by_axis", {"groups": "depth=7"}, "no group has depth=7; there are 2, 10, 30"),
        ("accuracy_by_axis", {"groups": "some"}, "neither a group nor setting=value"),
        ("accuracy_by_axis", {"groups": []}, "at least one group"),
        ("accuracy_by_axis", {"labels": {"skip=non": "x"}}, "there is no skip 'non'; did you mean 'none'"),
        ("gradient_heat_map", {"facet": "depth"}, "every group has a panel of its own"),
        ("gradient_ratio_by_layer", {}, "nothing in this run"),
    ],
)
def test_a_figure_that_cannot_be_drawn_is_refused_in_a_sentence(
    grid: gradlab.Result, name: str, request_: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        grid.chart(name, FigureRequest(**request_))
    assert sentence in str(caught.value)


def test_several_panels_need_a_figure_of_their_own(grid: gradlab.Result) -> None:
    from matplotlib.figure import Figure

    with pytest.raises(InvalidInput, match="3 panels, which need a figure of their own; leave out ax"):
        grid.figure("gradient_at_start_by_layer", ax=Figure().add_subplot())


def test_the_csv_file_holds_the_numbers_that_are_drawn(grid: gradlab.Result) -> None:
    chart = grid.chart("gradient_at_start_by_layer")
    rows = list(csv.DictReader(io.StringIO(render_csv(*chart.table()).decode())))
    canvas = draw_one(chart)
    for panel, ax in zip(chart.panels, canvas.axes, strict=True):
        assert isinstance(panel, LineChart)
        drawn = {line.get_label(): line.get_ydata() for line in ax.get_lines() if not line.get_label().startswith("_")}
        for label, y in drawn.items():
            kept = [float(r["‖dL/dW‖₂"]) for r in rows if r["layers"] == panel.title and r["series"] == label]
            np.testing.assert_allclose(y, kept)
    measured_there = grid.measured.profile("grad_l2", grid.measured.group_names[0], "start").values
    first = [float(r["‖dL/dW‖₂"]) for r in rows[: measured_there.shape[1]]]
    np.testing.assert_allclose(first, np.median(measured_there, axis=0))


def test_names_of_lines_stand_at_their_ends_where_they_fit_and_else_in_a_legend() -> None:
    x = np.array([1.0, 2.0, 3.0])

    def chart(*ends: float) -> LineChart:
        lines = (Line(f"line {i}", x, x * 0 + end, x * 0 + end, x * 0 + end, i) for i, end in enumerate(ends))
        return LineChart("t", "x", "y", tuple(lines))

    apart, together = draw_one(chart(1, 5, 9)), draw_one(chart(1, 1.001, 1.002, 1.003, 9))
    assert {"line 0", "line 1", "line 2"} == {text.get_text() for text in find_end_names(apart)}
    assert not any(frame.legends for frame in find_frames(apart))
    (legend,) = (legend for frame in find_frames(together) for legend in frame.legends)
    assert [text.get_text() for text in legend.get_texts()] == [f"line {i}" for i in range(5)]
    assert not find_end_names(together)
    assert not find_names_on_data(together)


def test_medians_of_categories_are_not_joined() -> None:
    found = measured(mnist(axes={"train.batch": [32, 64, "full"]}), flat)
    chart = make_chart(found, "accuracy_by_axis")
    assert isinstance(chart, AxisChart)
    assert not chart.joined
    ax = draw_one(chart).axes[0]
    assert all(line.get_linestyle() == "None" for line in ax.get_lines() if len(line.get_xdata()) == 3)


def test_the_frontier_is_labeled_at_its_points_and_its_uncertainty_drawn() -> None:
    offers = (
        Offer("cheap", 0.1, 0.5, False, (0.08, 0.13), (0.45, 0.55)),
        Offer("bad", 0.2, 0.4, True, (0.1, 0.3), (0.3, 0.5), False),
        Offer("good", 0.3, 0.9, False, (0.25, 0.4), (0.85, 0.95)),
    )
    canvas = draw_one(ParetoChart("t", "seconds", "accuracy", offers))
    ax = canvas.axes[0]
    labels = {text.get_text(): text for text in ax.texts}
    assert set(labels) == {"cheap", "good"}
    for offer in (offers[0], offers[2]):
        mark, box = ax.transData.transform((offer.cost, offer.value)), labels[offer.label].get_window_extent()
        assert abs(box.x0 - mark[0]) < 80
        assert abs(box.y0 - mark[1]) < 40
    drawn = [tuple(line.get_xdata()) for line in ax.get_lines()]
    assert (0.08, 0.13) in drawn
    assert (0.25, 0.4) in drawn
    (legend,) = (legend for frame in find_frames(canvas) for legend in frame.legends)
    assert "not settled" in " ".join(text.get_text() for text in legend.get_texts())


def test_long_names_on_the_frontier_become_numbers_that_the_note_explains() -> None:
    found = measured(mnist(axes=GRID), flat)
    scheme = make_scheme(found)
    groups = list(found.group_names)[:3]
    offers = tuple(Offer(g, 0.1 * (i + 1), 0.2 * (i + 1), False, group=g) for i, g in enumerate(groups))
    long = {name: f"{name} with a name that is longer than any mark has room for" for name in groups}
    chart = ParetoChart("t", "x", "y", tuple(Offer(long[o.group], o.cost, o.value, False) for o in offers))
    arranged = chart.arranged(scheme)
    assert isinstance(arranged, ParetoChart)
    assert arranged.note.startswith(f"1  {long[groups[0]]}\n2  ")
    assert {text.get_text() for text in draw_one(arranged).axes[0].texts} == {"1", "2", "3"}


def test_captions_say_what_to_see_with_numbers(result: gradlab.Result) -> None:
    for name, chart in result.charts.items():
        if name == "activation_mean_by_layer":
            continue
        assert chart.finding, name
        assert any(letter.isdigit() for letter in chart.caption), name
        assert "e+" not in chart.caption
        assert "e-" not in chart.caption


def test_figures_are_the_same_bytes_each_time(grid: gradlab.Result) -> None:
    for kind in ("svg", "png", "pdf"):
        first, second = (render_chart(grid.chart("accuracy_by_axis"), kind) for _ in range(2))
        assert first == second
