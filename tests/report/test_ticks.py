"""Ticks: few, round, whole where they count something, and never touching."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from gradlab.report.draw import make_canvas
from gradlab.report.look import look
from gradlab.report.ticks import AxisTicks, layer_ticks, linear_ticks, log_ticks, text_width, wrapped


@pytest.mark.parametrize("length", [40, 80, 160, 320, 640])
@pytest.mark.parametrize("limits", [(0, 10_750), (1, 500), (0.1, 0.97), (-3e-4, 2e-4), (0, 3e7), (-0.3, 0.01)])
def test_labels_of_a_linear_axis_do_not_touch(limits: tuple[float, float], length: float) -> None:
    with look():
        ax = make_canvas(6, 4).add_subplot()
        ax.set_xlim(*limits)
        AxisTicks(ax.xaxis).settle(length)
        ticks = list(zip(ax.get_xticks(), (t.get_text() for t in ax.get_xticklabels()), strict=True))
    low, high = limits
    boxes = [((x - low) / (high - low) * length, text_width(text, 9)) for x, text in ticks]
    for (a, wide_a), (b, wide_b) in pairwise(boxes):
        assert b - a > (wide_a + wide_b) / 2 + 3
    assert ticks


@pytest.mark.parametrize(
    "limits", [(0.22, 0.45), (1.1, 1.9), (0.6, 0.95), (2.1, 2.35), (0.03, 0.3), (1e-14, 1e2), (3, 9e3), (1e-44, 10)]
)
@pytest.mark.parametrize("most", [3, 5, 8])
def test_a_log_axis_has_labels_however_little_it_spans(limits: tuple[float, float], most: int) -> None:
    found = log_ticks(*limits, most)
    assert 2 <= len(found) <= most
    assert all(limits[0] * 0.999 <= place <= limits[1] * 1.001 for place, _ in found)
    assert len({text for _, text in found}) == len(found)
    assert all("$" not in text and "e" not in text for _, text in found)


def test_labels_of_a_log_axis_are_plain_text() -> None:
    assert [text for _, text in log_ticks(1e-12, 1, 5)] == ["10⁻¹²", "10⁻⁹", "10⁻⁶", "10⁻³", "10⁰"]
    assert [text for _, text in log_ticks(0.02, 30, 5)] == ["0.1", "1", "10"]
    assert [text for _, text in log_ticks(2e5, 7e6, 5)] == ["300,000", "10⁶", "3 × 10⁶"]


@pytest.mark.parametrize("depth", [1, 2, 3, 5, 6, 11, 20, 31, 51, 200])
def test_layers_are_counted_by_whole_numbers_from_one(depth: int) -> None:
    found = layer_ticks(depth + 0.5, 7)
    places = [place for place, _ in found]
    assert places[0] == 1
    assert all(place == round(place) for place in places)
    assert len(places) <= 7
    assert places[-1] >= 0.7 * depth


def test_epochs_have_whole_ticks() -> None:
    assert [text for _, text in linear_ticks(1, 3, 9, whole=True)] == ["1", "2", "3"]
    assert [text for _, text in linear_ticks(0, 5006, 6, whole=True)] == [
        "0",
        "1,000",
        "2,000",
        "3,000",
        "4,000",
        "5,000",
    ]


def test_words_on_an_axis_are_folded_and_then_turned() -> None:
    with look():
        ax = make_canvas(6, 4).add_subplot()
        ax.set_xlim(-0.5, 3.5)
        words = ["no skip, default init", "skip, default init", "no skip, He init", "skip, He init"]
        ax.set_xticks(range(4), words)
        ticks = AxisTicks(ax.xaxis)
        ticks.settle(280)
        assert any("\n" in text.get_text() for text in ax.get_xticklabels())
        assert all(text.get_rotation() == 0 for text in ax.get_xticklabels())
        ticks.settle(60)
        assert all(text.get_rotation() > 0 for text in ax.get_xticklabels())


def test_upright_ticks_are_thinned_where_an_axis_is_short() -> None:
    with look():
        ax = make_canvas(6, 4).add_subplot()
        ax.set_ylim(0, 1)
        ticks = AxisTicks(ax.yaxis)
        ticks.settle(200)
        many = len(ax.get_yticks())
        ticks.settle(30)
        assert 1 <= len(ax.get_yticks()) < many


def test_text_is_measured_as_the_renderer_draws_it() -> None:
    canvas = make_canvas(6, 4)
    for text in ("Weight gradient by layer", "‖dL/dW‖₂", "10⁻¹²", "30 layers, skip, default init"):
        drawn = canvas.text(0.1, 0.5, text, fontsize=10).get_window_extent().width * 72 / canvas.dpi
        assert text_width(text, 10) == pytest.approx(drawn, rel=0.08)


def test_long_text_is_wrapped_to_its_width() -> None:
    text = "share of the variance between cells; interactions: init × batch size 6 %, width × batch size 4 %"
    lines = wrapped(text, 150, 8).split("\n")
    assert len(lines) > 2
    assert all(text_width(line, 8) <= 150 for line in lines)
    assert " ".join(lines) == text
    assert np.isclose(text_width("a\nbb", 8), text_width("bb", 8))


@pytest.mark.parametrize("most", [2, 3, 5, 9])
def test_a_log_axis_of_all_the_decades_there_are_has_ticks(most: int) -> None:
    assert 1 <= len(log_ticks(1e-300, 1e300, most)) <= max(most, 3)


@pytest.mark.parametrize("ends", [(0.0, 5e-324), (1e-320, 2e-320), (-1.7e308, 1.7e308), (0.0, 1e308)])
def test_an_axis_of_the_smallest_or_largest_numbers_still_has_a_tick(ends: tuple[float, float]) -> None:
    assert linear_ticks(*ends, 6)
