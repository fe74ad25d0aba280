"""A small HTML view of a result for notebooks. Every name is escaped."""

from __future__ import annotations

from html import escape

from gradlab.report.draw import draw_overview, render_image
from gradlab.report.story import Story
from gradlab.report.tables import Table


def render_notebook(story: Story) -> str:
    """The question, its answer, whether it is fair, the verdicts, the overview figure and the tables."""
    parts = [f"<h3>{escape(story.question)}</h3>", f"<p><b>{escape(story.answer)}</b></p>"]
    for line in (story.fairness, story.caveats, story.tally):
        parts += [f"<p>{escape(line)}</p>"] if line else []
    parts += [verdict._repr_html_() for verdict in story.verdicts]
    if story.pictures.charts:
        svg = render_image(draw_overview(story.pictures.charts, ""), "svg").decode()
        parts.append(svg[svg.index("<svg") :])
    return "\n".join([*parts, *(_render_table(table) for table in story.tables)])


def _render_table(table: Table) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table.header)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
    return f"<h4>{escape(table.title)}</h4><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
