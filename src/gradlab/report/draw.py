"""From a figure's name to a matplotlib figure and its files."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from typing import Any

from gradlab.analysis.measured import Measured
from gradlab.errors import InvalidInput, described, nearest
from gradlab.report.charts import Chart, Panels
from gradlab.report.figures.base import Figure
from gradlab.report.layout import PlacedChart, draw_key, fit_grid, lay_out, make_grid, tip_id
from gradlab.report.look import SOFT, WARNING, load_matplotlib, look, plain, pt
from gradlab.report.scheme import make_scheme
from gradlab.report.ticks import AxisTicks, text_height, wrapped

FORMATS = {"page": (6.8, 4.3, 1.0), "column": (3.4, 2.5, 0.74), "slide": (40 / 3, 7.5, 1.8)}
"""Inches across and down, and the scale of text: across a page, in a column of a paper, on a slide."""
SIZE = FORMATS["page"][:2]
EVIDENCE = "evidence"
PLOT = 0.8
"""Share of a figure's usual height that is left to title and axes, however long the note below them is."""
ROW, HEAD = 1.55, 1.25
"""Inches of a row of panels, and of everything above and below them."""


def make_charts(measured: Measured) -> tuple[dict[str, Chart], tuple[str, ...]]:
    """The charts of the study's figures by name, and a line for each that could not be made.

    A study that names no figures gets all that apply. Where seeds were added until the claims were settled, how that
    came about is always shown.
    """
    catalog = measured.plan.catalog
    wanted = measured.study.figures
    names = wanted if wanted is not None else catalog.ranked("figure")
    if wanted is not None and measured.study.until_settled is not None and EVIDENCE not in wanted:
        names = (*wanted, EVIDENCE)
    found, missing = {}, []
    for name in names:
        try:
            chart = make_chart(measured, name)
        except (Exception, SystemExit) as error:  # a user's figure can fail in any way; the report is still wanted
            missing.append(f"{name}: {described(error)}")
            continue
        if chart is not None:
            found[name] = chart
        elif wanted and name in wanted:
            missing.append(f"{name}: nothing in this study to show")
    return _lead(measured, found), tuple(missing)


def _lead(measured: Measured, charts: dict[str, Chart]) -> dict[str, Chart]:
    """The charts, first one that shows the headline metric: what the answer is about is what a reader sees first."""
    headline = measured.headline
    if headline is None or not charts:
        return charts
    wanted = {headline.metric, f"{headline.metric}@{headline.at.step or 'end'}"}
    catalog = measured.plan.catalog
    classes: dict[str, type[Figure]] = {name: catalog.get("figure", name) for name in charts}  # type: ignore[misc]
    lead = next((name for name, one in classes.items() if one.of_headline or wanted & set(one.shows)), None)
    return charts if lead is None else {lead: charts[lead], **charts}


def make_chart(measured: Measured, name: str, facet: str | None = None, color: str | None = None) -> Chart | None:
    """One figure's chart, with names, strokes and panels; None if the study has nothing of the kind."""
    figure: Figure = measured.plan.catalog.make("figure", name, {})
    chart = figure.chart(measured)
    if chart is None:
        return None
    return chart.arranged(make_scheme(measured, facet, color, chart.along, each=chart.each_group))


# ---------------------------------------------------------------------- drawing


@cache
def _canvas_class() -> Any:
    from matplotlib.figure import Figure as Canvas
    from matplotlib.layout_engine import LayoutEngine, PlaceHolderLayoutEngine

    class Picture(Canvas):
        """A matplotlib figure that shows itself in a notebook, whatever the backend."""

        def get_layout_engine(self) -> LayoutEngine | None:
            """None once everything has its place: saving then draws once, not a first time for the layout."""
            engine = super().get_layout_engine()
            return None if isinstance(engine, PlaceHolderLayoutEngine) else engine

        def _repr_png_(self) -> bytes:
            return render_image(self, "png")

    return Picture


def make_canvas(width: float, height: float) -> Any:
    """An empty figure of this size in inches."""
    return _canvas_class()(figsize=(width, height), layout="constrained")


def draw_one(chart: Chart, ax: Any = None, *, size: str = "page") -> Any:
    """A matplotlib figure with this chart, or the chart on the given axes."""
    if size not in FORMATS:
        raise InvalidInput(f"size {size!r}: accepted: {', '.join(FORMATS)}{nearest(size, FORMATS)}")
    width, height, scale = FORMATS[size]
    with look(scale):
        if ax is not None:
            _draw_on(chart, ax)
            return ax.figure
        if size == "page" and isinstance(chart, Panels) and chart.own_labels:
            width = max(width, min(3.2 * len(chart.charts), 9.6))
        fixed = size == "slide"
        canvas = make_canvas(width, height if fixed else _natural_height(chart, width, height, scale))
        grid = fit_grid(chart, width, height) if fixed else make_grid(chart, 72 * width)
        lay_out(canvas, [PlacedChart(chart, canvas, grid)])
        return canvas


def _natural_height(chart: Chart, width: float, height: float, scale: float) -> float:
    """Inches that a chart needs: more for several rows of panels or of text."""
    rows, _ = make_grid(chart, 72 * width)
    if chart.text_rows:
        return scale * (HEAD + 0.19 * chart.text_rows)
    notes = text_height(wrapped(chart.full_note, 72 * width, pt(8)), pt(8)) / 72
    if len(chart.panels) == 1:
        return max(height, PLOT * height + notes)
    natural = scale * (HEAD + ROW * rows) + notes
    return max(natural, 0.8 * height if rows == 1 else height)


def _draw_on(chart: Chart, ax: Any) -> None:
    """On axes of somebody's own figure: title, labels, legend and note as matplotlib places them."""
    chart.draw_marks(ax)
    points = ax.get_window_extent().transformed(ax.figure.dpi_scale_trans.inverted())
    AxisTicks(ax.xaxis).settle(72 * points.width)
    AxisTicks(ax.yaxis).settle(72 * points.height)
    ax.set_title(plain(chart.title))
    ax.set_xlabel(plain(chart.x_label))
    ax.set_ylabel(plain(chart.y_label))
    if chart.key:
        draw_key(ax, ax, chart.key).settle(72 * points.height)
    if chart.full_note:
        note = wrapped(chart.full_note, 72 * points.width, pt(8))
        ax.annotate(
            plain(note), (0, 0), (0, -pt(38)), xycoords="axes fraction", textcoords="offset points",
            color=WARNING if chart.warning else SOFT, fontsize=pt(8), va="top",
        )  # fmt: skip
    if len(ax.get_legend_handles_labels()[1]) > 1:
        ax.legend()


def overview_names(charts: Mapping[str, Chart]) -> list[str]:
    """The figures of the overview: the first four, those of many panels last."""
    return sorted(charts, key=lambda name: len(charts[name].panels) > 6)[:4]


def draw_overview(charts: Mapping[str, Chart], title: str) -> Any:
    """Up to four charts on one page, under the question."""
    chosen = [charts[name] for name in overview_names(charts)]
    columns = 1 if len(chosen) == 1 else 2
    rows = [chosen[start : start + columns] for start in range(0, len(chosen), columns)]
    width, height = SIZE
    with look():
        heights = [max(_natural_height(chart, width, height, 1.0) for chart in row) for row in rows]
        heading = wrapped(title, 72 * width * columns - 20, 14, bold=True)
        canvas = make_canvas(width * columns, sum(heights) + (text_height(heading, 14) + 10) / 72 * bool(title))
        if title:
            canvas.suptitle(plain(heading), x=7 / (72 * width * columns), ha="left", fontsize=14, fontweight="bold")
        frames = canvas.subfigures(len(rows), columns, squeeze=False, height_ratios=heights)
        placed = [
            PlacedChart(chart, frame, make_grid(chart, 72 * width))
            for row, line in zip(rows, frames, strict=True)
            for chart, frame in zip(row, line, strict=False)
        ]
        lay_out(canvas, placed)
        return canvas


# ---------------------------------------------------------------------- files


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
        fast = {"pil_kwargs": {"compress_level": 2}} if kind == "png" else {}
        canvas.savefig(buffer, format=kind, metadata=undated[kind], **fast)
    return buffer.getvalue()


def join_images(pictures: Sequence[bytes], title: str) -> bytes:
    """Up to four PNG files as one, two beside each other, under a title: nothing is drawn a second time."""
    from PIL import Image

    images = [Image.open(io.BytesIO(picture)).convert("RGB") for picture in pictures]
    columns = 1 if len(images) == 1 else 2
    width = max(image.width for image in images)
    with look():
        dpi = float(load_matplotlib().rcParams["savefig.dpi"])
        across = 72 * width * columns / dpi
        heading = wrapped(title, across - 20, 14, bold=True)
        canvas = make_canvas(across / 72, (text_height(heading, 14) + 12) / 72)
        canvas.text(
            7 / across, 0.5, plain(heading), fontsize=14, fontweight="bold", va="center", ha="left", linespacing=1.1
        )
    head = Image.open(io.BytesIO(render_image(canvas, "png"))).convert("RGB")
    rows = [images[start : start + columns] for start in range(0, len(images), columns)]
    page = Image.new("RGB", (width * columns, head.height + sum(max(i.height for i in row) for row in rows)), "white")
    page.paste(head, (0, 0))
    y = head.height
    for row in rows:
        for column, image in enumerate(row):
            page.paste(image, (column * width, y))
        y += max(image.height for image in row)
    buffer = io.BytesIO()
    page.save(buffer, "png", compress_level=4)
    return buffer.getvalue()


def render_chart(chart: Chart, kind: str, *, size: str = "page") -> bytes:
    """A chart as a file; names in an SVG have the full settings as tooltips."""
    return _render(draw_one(chart, size=size), chart, kind)


def render_images(chart: Chart, kinds: Sequence[str]) -> dict[str, bytes]:
    """A chart as several kinds of files; the PDF fits a column of a paper."""
    canvas = draw_one(chart)
    found = {kind: _render(canvas, chart, kind) for kind in kinds if kind != "pdf"}
    if "pdf" in kinds:
        own = (
            isinstance(chart, Panels) and chart.own_labels
        )  # several views side by side: a column has no room for them
        found["pdf"] = render_image(canvas, "pdf") if own else render_chart(chart, "pdf", size="column")
    return found


def _render(canvas: Any, chart: Chart, kind: str) -> bytes:
    content = render_image(canvas, kind)
    if kind != "svg":
        return content
    text = content.decode()
    for name, tip in chart.tips:
        mark = f'<g id="{tip_id(name, tip)}">'
        text = text.replace(mark, f"{mark}<title>{escape(tip)}</title>")
    return text.encode()
