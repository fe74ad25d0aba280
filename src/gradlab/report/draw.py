"""From a figure's name to a matplotlib figure and its files."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from gradlab.analysis.measured import Measured
from gradlab.errors import described
from gradlab.report.charts import Chart, draw
from gradlab.report.figures.base import Figure
from gradlab.report.look import look, plain

SIZE = (6.8, 4.3)
COLUMN = 3.4
"""Inches of a column in a paper."""


def make_charts(measured: Measured) -> tuple[dict[str, Chart], tuple[str, ...]]:
    """The charts of the study's figures by name, and a line for each that could not be made.

    A study that names no figures gets all that apply.
    """
    catalog = measured.plan.catalog
    wanted = measured.study.figures
    names = wanted if wanted is not None else catalog.ranked("figure")
    found, missing = {}, []
    for name in names:
        try:
            figure: Figure = catalog.make("figure", name, {})
            chart = figure.chart(measured)
        except (Exception, SystemExit) as error:  # a user's figure can fail in any way; the report is still wanted
            missing.append(f"{name}: {described(error)}")
            continue
        if chart is not None:
            found[name] = chart
        elif wanted:
            missing.append(f"{name}: nothing in this study to show")
    return found, tuple(missing)


@cache
def _canvas_class() -> Any:
    from matplotlib.figure import Figure as Canvas

    class Picture(Canvas):
        """A matplotlib figure that shows itself in a notebook, whatever the backend."""

        def _repr_png_(self) -> bytes:
            return render_image(self, "png")

    return Picture


def make_canvas(width: float, height: float) -> Any:
    """An empty figure of this size in inches, laid out as it is filled."""
    return _canvas_class()(figsize=(width, height), layout="constrained")


def draw_one(chart: Chart, ax: Any = None, *, size: tuple[float, float] = SIZE) -> Any:
    """A matplotlib figure with this chart, or the chart on the given axes."""
    with look():
        if ax is not None:
            draw(chart, ax)
            return ax.figure
        canvas = make_canvas(*size)
        draw(chart, canvas.add_subplot())
        return canvas


def draw_overview(charts: Mapping[str, Chart], title: str) -> Any:
    """Up to four charts on one page, under the question."""
    chosen = list(charts.values())[:4]
    columns = 1 if len(chosen) == 1 else 2
    rows = -(-len(chosen) // columns)
    with look():
        canvas = make_canvas(SIZE[0] * columns * 0.92, SIZE[1] * rows * 0.92 + 0.5)
        canvas.get_layout_engine().set(w_pad=0.12, h_pad=0.12)
        canvas.suptitle(plain(title), fontsize=14, fontweight="bold", x=0.012, ha="left")
        for index, chart in enumerate(chosen):
            draw(chart, canvas.add_subplot(rows, columns, index + 1))
        return canvas


def render_image(canvas: Any, kind: str) -> bytes:
    """The figure as `png`, `svg` or `pdf`, the same bytes for the same figure."""
    buffer = io.BytesIO()
    undated: dict[str, Any] = {
        "svg": {"Date": None},
        "png": {"Software": None},
        "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
    }
    with look(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a letter that the font lacks becomes a box
        canvas.savefig(buffer, format=kind, metadata=undated[kind])
    return buffer.getvalue()


def render_images(canvas: Any, kinds: Sequence[str]) -> dict[str, bytes]:
    """One figure as several kinds of files; it is laid out once."""
    found = {}
    for kind in kinds:
        found[kind] = render_image(canvas, kind)
        canvas.set_layout_engine(None)  # keeps the layout, so that the next kind is drawn once instead of twice
    return found


def render_column_pdf(chart: Chart) -> bytes:
    """A chart as a PDF for a column of a paper; if its labels need more room, it keeps its usual size."""
    size = (1.6 * COLUMN, 1.6 * COLUMN * SIZE[1] / SIZE[0])
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", "constrained_layout not applied")
            return render_image(draw_one(chart, size=size), "pdf")
    except UserWarning:
        return render_image(draw_one(chart), "pdf")
