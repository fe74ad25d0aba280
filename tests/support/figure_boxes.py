"""Where the texts of a figure stand, as matplotlib's renderer measures them."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from gradlab.report.look import look

TOUCH = 1.0
"""Pixels that two boxes may share: boxes are rounded to pixels, and include the room above small letters."""


def find_texts(canvas: Any) -> list[tuple[str, Any]]:
    """Every visible text with its box in pixels."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    renderer = FigureCanvasAgg(canvas).get_renderer()
    with look():
        canvas.draw(renderer)
    hidden = {id(text) for ax in canvas.axes for text in _unshown(ax)}
    texts = [text for text in canvas.findobj(Text) if text.get_visible() and text.get_text().strip()]
    return [(text.get_text(), text.get_window_extent(renderer)) for text in texts if id(text) not in hidden]


def _unshown(ax: Any) -> list[Any]:
    """Labels of ticks that lie outside the axes, or that the other end of a shared axis shows."""
    found = []
    for axis in (ax.xaxis, ax.yaxis):
        low, high = sorted(axis.get_view_interval())
        pad = 1e-9 * (high - low)
        for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
            outside = not low - pad <= tick.get_loc() <= high + pad
            found += [each for each in (tick.label1, tick.label2) if outside or not each.get_visible()]
    return found


def find_collisions(canvas: Any) -> list[str]:
    """Pairs of texts that overlap, and texts that leave the canvas."""
    texts = find_texts(canvas)
    found = []
    for (one, a), (other, b) in combinations(texts, 2):
        across = min(a.x1, b.x1) - max(a.x0, b.x0)
        down = min(a.y1, b.y1) - max(a.y0, b.y0)
        if across > TOUCH and down > TOUCH:
            found.append(f"{one!r} overlaps {other!r}")
    width, height = canvas.bbox.width, canvas.bbox.height
    for text, box in texts:
        if box.x0 < -TOUCH or box.y0 < -TOUCH or box.x1 > width + TOUCH or box.y1 > height + TOUCH:
            found.append(f"{text!r} leaves the canvas")
    return found


def find_frames(canvas: Any) -> list[Any]:
    """A figure and those nested into it: title, notes and legend stand in one each."""
    return [canvas, *(inner for nested in canvas.subfigs for inner in find_frames(nested))]


def find_end_names(canvas: Any) -> list[Any]:
    """The names of lines that stand at their ends, outside the axes."""
    return [text for ax in canvas.axes for text in ax.texts if text.get_annotation_clip() is False]


def find_names_on_data(canvas: Any) -> list[str]:
    """Names, titles and notes of the figure itself that stand inside axes, where lines are."""
    from matplotlib.text import Text

    frames = find_frames(canvas)
    own = [*(text for frame in frames for text in frame.texts if text.get_text().strip()), *find_end_names(canvas)]
    legends = [legend for frame in frames for legend in frame.legends]
    own += [text for legend in legends for text in legend.findobj(Text) if text.get_text().strip()]
    found = []
    for text in own:
        box = text.get_window_extent()
        for ax in canvas.axes:
            area = ax.get_window_extent()
            if (
                min(box.x1, area.x1) - max(box.x0, area.x0) > TOUCH
                and min(box.y1, area.y1) - max(box.y0, area.y0) > TOUCH
            ):
                found.append(f"{text.get_text()!r} stands on the data")
    return found
