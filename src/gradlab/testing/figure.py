"""What every figure has to keep."""

from __future__ import annotations

from collections.abc import Iterator

from gradlab.report.charts import Chart
from gradlab.report.draw import draw_one, render_image
from gradlab.report.figures.base import Figure
from gradlab.testing.base import Check, check, require
from gradlab.testing.trials import small_comparison, small_result, small_sweep, small_tuning


def checks(part: Figure) -> Iterator[Check]:
    """It computes a chart (or nothing), and the chart can be drawn."""

    def draws() -> None:
        for measured in (small_result(), small_sweep(), small_tuning(), small_comparison()):
            chart = part.chart(measured)
            if chart is None:
                continue
            require(isinstance(chart, Chart), f"chart gives a {type(chart).__name__}")
            require(bool(chart.title and chart.x_label and chart.y_label), "a figure needs a title and both labels")
            require(render_image(draw_one(chart), "png").startswith(b"\x89PNG"), "it cannot be drawn")

    yield check("gives a chart that can be drawn", draws)
