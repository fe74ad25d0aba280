"""A small HTML view of a result for notebooks. Every name is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from gradlab.analysis.answer import answer
from gradlab.analysis.claims.verdict import Verdict
from gradlab.analysis.measured import Measured
from gradlab.audits.audit import Audit
from gradlab.report.charts import Chart
from gradlab.report.draw import draw_overview, image
from gradlab.report.tables import Table, report_tables


def html_view(
    measured: Measured, charts: dict[str, Chart], audit: Audit | None = None, verdicts: Sequence[Verdict] = ()
) -> str:
    """The question, its answer, whether it is fair, the verdicts, the overview figure and the tables."""
    parts = [f"<h3>{escape(measured.study.question)}</h3>", f"<p><b>{escape(answer(measured))}</b></p>"]
    if audit is not None:
        parts.append(f"<p>Same set-up except the declared factor? {escape(audit.answer)}</p>")
    parts += [verdict._repr_html_() for verdict in verdicts]
    if charts:
        svg = image(draw_overview(charts, ""), "svg").decode()
        parts.append(svg[svg.index("<svg") :])
    tables = report_tables(measured)
    return "\n".join([*parts, *(_table(table) for table in tables)])


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table.header)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
    return f"<h4>{escape(table.title)}</h4><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
