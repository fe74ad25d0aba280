"""The report as one HTML file that needs nothing else: no request, no folder beside it, no server.

`template.html` is the page, `style.css` its look, `page.js` what moves (charts by Apache ECharts, which is inside the
file). Everything that comes from a study is escaped by Jinja, or handed over as JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradlab.report.charts import Chart
from gradlab.report.inside.views import LinePanel, UnitPanel, View
from gradlab.report.look import dark_colors
from gradlab.report.tables import HOW, Table
from gradlab.spec.base import plain_json
from gradlab.tell.methods import GLOSSARY
from gradlab.tell.why import MEANS

if TYPE_CHECKING:
    from gradlab.report.pictures import Pictures
    from gradlab.report.story import Story

FOLDER = Path(__file__).parent
ECHARTS = "echarts.min.js"


def render_page(story: Story, pictures: Pictures, svg: Mapping[str, bytes]) -> str:
    """The whole page; `svg` are the charts as files, by name."""
    world = pictures.microworld
    views = world.views if world is not None else ()
    data: dict[str, Any] = {"explorer": story.explorer, "scenes": [_view_json(view) for view in views]}
    if world is not None:
        data["steps"], data["arms"] = world.recording.steps, list(world.recording.arms)
    context = {
        "story": story,
        "how": HOW,
        "figures": [_figure(name, chart, svg[name]) for name, chart in pictures.charts.items() if name in svg],
        "missing": pictures.missing,
        "microworld": world,
        "glossary": GLOSSARY,
        "means": MEANS,
        "data": _json(data),
        "css": _text("style.css") + dark_style(),
        "script": _text("page.js"),
        "echarts": _text(ECHARTS) if views or story.explorer else "",
    }
    return str(_template().render(context))


@cache
def _template() -> Any:
    import jinja2

    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["kind"] = _kind
    environment.filters["code"] = _code
    return environment.from_string(_text("template.html"))


@cache
def _text(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf8")


def _json(value: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(plain_json(value), ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _figure(name: str, chart: Chart, picture: bytes) -> dict[str, str]:
    return {"name": name, "svg": inline_svg(picture, name, chart.description), "caption": chart.caption}


def _kind(table: Table, column: int) -> str:
    """Whether a column holds numbers: they stand right and sort by size."""
    return "number" if column in table.numbers else "text"


def _code(text: str) -> Any:
    """Escaped, with what stands between backticks as code."""
    import markupsafe

    pieces = [str(markupsafe.escape(piece)) for piece in text.split("`")]
    if len(pieces) % 2 == 0:
        return markupsafe.escape(text)
    marked = [f"<code>{piece}</code>" if index % 2 else piece for index, piece in enumerate(pieces)]
    return markupsafe.Markup("".join(marked))


def _view_json(view: View) -> dict[str, Any]:
    return {
        "name": view.name,
        "captions": list(view.captions),
        "panels": [_panel_json(panel) for panel in view.panels],
        "heats": [_unit_panel_json(panel) for panel in view.unit_panels],
    }


def _panel_json(panel: LinePanel) -> dict[str, Any]:
    return {
        "title": panel.title,
        "x": panel.x_label,
        "y": panel.y_label,
        "log": panel.log,
        "series": [
            {"name": line.name, "arm": line.arm, "faint": line.faint, "frames": [list(one) for one in line.values]}
            for line in panel.lines
        ],
        "theory": [
            {"arm": line.arm, "center": list(line.center), "low": list(line.low), "high": list(line.high)}
            for line in panel.theory
        ],
    }


def _unit_panel_json(panel: UnitPanel) -> dict[str, Any]:
    frames = [[[None if v != v else float(f"{v:.3g}") for v in row] for row in one.tolist()] for one in panel.values]
    return {"title": panel.title, "arm": panel.arm, "frames": frames}


# A figure's SVG file as a part of the page: its colors follow the page's, light or dark.

_TAG = re.compile(r"<[^>]+>")
_COLOR = re.compile(r"#[0-9a-f]{6}\b")
_ID = re.compile(r'\b(id=")|(url\(#)|(href="#)')
_METADATA = re.compile(r"<metadata>.*?</metadata>", re.DOTALL)


def inline_svg(picture: bytes, name: str, description: str) -> str:
    """The `svg` element of a file, with ids of its own, a description, and colors as variables of the page."""
    text = picture.decode()
    text = _METADATA.sub("", text[text.index("<svg") :])
    known = dark_colors()

    def variable(match: re.Match[str]) -> str:
        color = match.group()
        return f"var(--f-{color[1:]},{color})" if color in known else color

    def tag(match: re.Match[str]) -> str:
        # only inside tags: a name of the study's own may look like a color
        found = _ID.sub(lambda m: f"{m.group()}{name}-", match.group())
        return _COLOR.sub(variable, found) if "style=" in found or "fill=" in found else found

    text = _TAG.sub(tag, text)
    return text.replace("<svg ", f'<svg role="img" aria-label="{escape(description)}" ', 1)


@cache
def dark_style() -> str:
    """The variables that figures use on a dark screen; without them each color stands for itself."""
    rules = ";".join(f"--f-{light[1:]}:{dark}" for light, dark in dark_colors().items())
    return f"@media screen and (prefers-color-scheme: dark){{:root{{{rules}}}}}"
