"""The report as one HTML file that needs nothing else: no request, no folder beside it, no server.

`template.html` is the page, `style.css` its look, `page.js` what moves (charts by Apache ECharts, which is inside the
file). Everything that comes from a study is escaped by Jinja, or handed over as JSON.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from gradlab.analysis.answer import answer
from gradlab.analysis.findings import findings
from gradlab.report.charts import Chart
from gradlab.report.fairness import HOW, audit_table, beside_lines, claims_table
from gradlab.report.inside.scenes import Heat, Panel, Scene, diagnosis_lines, scenes, steps_of
from gradlab.report.page.explorer import explorer
from gradlab.report.story import Story
from gradlab.report.tables import Table, failures, report_tables
from gradlab.report.words import GLOSSARY, methods
from gradlab.spec.canonical import plain_json

FOLDER = Path(__file__).parent
ECHARTS = "echarts.min.js"


def html_page(story: Story, pictures: Mapping[str, bytes]) -> str:
    """The whole page; `pictures` are the figures as SVG, by name."""
    measured, study = story.measured, story.measured.study
    claims = claims_table(story.verdicts)
    shown = scenes(story.film) if story.film is not None else []
    data: dict[str, Any] = {"explorer": explorer(measured), "scenes": [_scene(scene) for scene in shown]}
    if story.film is not None:
        data["steps"], data["arms"] = steps_of(story.film), list(story.film.arms)
    context = {
        "study": study,
        "answer": answer(measured),
        "findings": findings(measured),
        "audit": story.audit,
        "audit_table": None if story.audit is None else audit_table(story.audit),
        "claims": claims,
        "verdicts": story.verdicts,
        "how": HOW,
        "beside": beside_lines(story.verdicts),
        "notes": story.notes,
        "figures": [_figure(name, chart, pictures[name]) for name, chart in story.charts.items() if name in pictures],
        "missing": story.missing,
        "tables": report_tables(measured, story.layer_names),
        "failures": failures(measured),
        "explorer": data["explorer"],
        "scenes": shown,
        "film": story.film,
        "diagnosis": diagnosis_lines(story.diagnoses),
        "methods": methods(measured, story.audit, story.environment),
        "glossary": GLOSSARY,
        "groups": measured.plan.groups,
        "own_code": measured.plan.own_code,
        "command": story.command,
        "environment": story.environment,
        "hash": measured.hash,
        "data": _json(data),
        "css": _text("style.css"),
        "script": _text("page.js"),
        "echarts": _text(ECHARTS) if shown or data["explorer"] else "",
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
    source = f"data:image/svg+xml;base64,{base64.b64encode(picture).decode()}"
    note = f" {chart.full_note[0].upper()}{chart.full_note[1:]}." if chart.full_note else ""
    return {"name": name, "source": source, "alt": chart.description, "caption": f"{chart.title}.{note}"}


def _kind(table: Table, column: int) -> str:
    """Whether a column holds numbers: they stand right and sort by size."""
    cells = [row[column] for row in table.rows]
    return "number" if column and cells and all(cell[:1].isdigit() or cell[:1] in "-−–∞" for cell in cells) else "text"


def _code(text: str) -> Any:
    """Escaped, with what stands between backticks as code."""
    import markupsafe

    pieces = [str(markupsafe.escape(piece)) for piece in text.split("`")]
    if len(pieces) % 2 == 0:
        return markupsafe.escape(text)
    marked = [f"<code>{piece}</code>" if index % 2 else piece for index, piece in enumerate(pieces)]
    return markupsafe.Markup("".join(marked))


def _scene(scene: Scene) -> dict[str, Any]:
    return {
        "name": scene.name,
        "panels": [_panel(panel) for panel in scene.panels],
        "heats": [_heat(heat) for heat in scene.heats],
    }


def _panel(panel: Panel) -> dict[str, Any]:
    return {
        "title": panel.title,
        "x": panel.x_label,
        "y": panel.y_label,
        "log": panel.log,
        "series": [
            {"name": curve.name, "arm": curve.arm, "faint": curve.faint, "frames": [list(one) for one in curve.frames]}
            for curve in panel.curves
        ],
    }


def _heat(heat: Heat) -> dict[str, Any]:
    frames = [[[None if v != v else float(f"{v:.3g}") for v in row] for row in one.tolist()] for one in heat.frames]
    return {"title": heat.title, "arm": heat.arm, "frames": frames}
