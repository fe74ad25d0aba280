"""The Markdown report: the question and its answer on top, then what it rests on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gradlab.analysis.answer import answer
from gradlab.analysis.claims.verdict import Verdict
from gradlab.analysis.findings import findings
from gradlab.analysis.measured import Measured
from gradlab.report.charts import Chart
from gradlab.report.fairness import HOW, audit_table, beside_lines, claims_table
from gradlab.report.inside.scenes import diagnosis_lines, scenes
from gradlab.report.story import Story
from gradlab.report.tables import Table, failures, report_tables
from gradlab.report.words import methods
from gradlab.spec.paths import label

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#&])")


def escape(text: str) -> str:
    """Any name as plain text in Markdown: no markup, no HTML."""
    return _SPECIAL.sub(r"\\\1", text).replace("\\<", "&lt;").replace("\\>", "&gt;").replace("\\&", "&amp;")


def markdown_report(story: Story) -> str:
    """The whole report; figures are linked relative to its folder."""
    measured, audit, verdicts, charts = story.measured, story.audit, story.verdicts, story.charts
    note = " ".join(story.notes)
    study = measured.study
    lines = [f"# {escape(study.question)}", ""]
    if audit is not None and audit.mark is not None:
        lines += [f"> **{escape(audit.mark.capitalize())}.** {escape('; '.join(audit.undeclared))}.", ""]
    lines += [f"**{escape(answer(measured))}**", ""]
    if note:
        lines += [f"> {escape(note)}", ""]
    if study.source:
        lines += [f"Source of the claim: {escape(study.source)}.", ""]
    if audit is not None and audit.limits:
        lines += ["What this design cannot attribute:", "", *(f"- {escape(limit)}" for limit in audit.limits), ""]
    if found := findings(measured):
        lines += [escape(found), ""]
    if charts:
        lines += ["![overview](figures/overview.png)", ""]
    if (claims := claims_table(verdicts)) is not None:
        lines += [f"## {claims.title}", "", *table_lines(claims), "", escape(HOW), "", *_evidence(verdicts)]
    for table in report_tables(measured, story.layer_names):
        lines += [f"## {table.title}", "", *table_lines(table), ""]
    if audit is not None:
        lines += ["## Is the comparison fair?", "", escape(audit.answer), "", *table_lines(audit_table(audit)), ""]
    if broken := failures(measured):
        lines += ["## Trials that failed", "", *(f"- {escape(line)}" for line in broken), ""]
    if charts:
        lines += ["## Figures", ""]
        for name, chart in charts.items():
            lines += [f"![{escape(chart.title)}](figures/{name}.png)", "", f"*{escape(_caption(chart))}*", ""]
    if missing := list(story.missing):
        lines += ["Figures that could not be made:", "", *(f"- {escape(line)}" for line in missing), ""]
    lines += _micro_world(story)
    lines += ["## Methods", "", escape(methods(measured, audit, story.environment)), ""]
    return "\n".join([*lines, *_design(measured), *_again(measured, story.environment, story.command)])


def _micro_world(story: Story) -> list[str]:
    """The last frame of every scene, what to see in it, and the diagnosis."""
    if story.film is None:
        return []
    arms = " and ".join(story.film.arms)
    lines = ["## The micro-world", "", f"{escape(arms)}, seed {story.film.seed}, layer by layer.", ""]
    lines += [*(f"- {escape(line)}" for line in diagnosis_lines(story.diagnoses)), ""]
    for scene in scenes(story.film):
        lines += [f"![{escape(scene.title)}](figures/{scene.name}.png)", "", f"*{escape(scene.caption)}*", ""]
    return lines


def relative_links(text: str) -> list[str]:
    """Every file that a report links to beside itself."""
    found = re.findall(r"(?<!\\)\]\(([^)\s]+)\)", text)
    return list(dict.fromkeys(link for link in found if "://" not in link and not link.startswith("#")))


def table_lines(table: Table) -> Iterable[str]:
    """A table in Markdown, notes below."""
    yield "| " + " | ".join(map(escape, table.header)) + " |"
    yield "|" + " --- |" * len(table.header)
    for row in table.rows:
        yield "| " + " | ".join(map(escape, row)) + " |"
    for note in table.notes:
        yield f"\n*{escape(note)}*"


def _caption(chart: Chart) -> str:
    against = f"{chart.y_label} against {chart.x_label}"
    title = chart.title if chart.title.lower().startswith(chart.y_label.lower()) else f"{chart.title}: {against}"
    note = f" {chart.full_note[0].upper()}{chart.full_note[1:]}." if chart.full_note else ""
    return f"{title}.{note}"


def _evidence(verdicts: Sequence[Verdict]) -> list[str]:
    """The figure of every claim, and the resampling methods beside the deciding rule."""
    shown = {verdict.figure: verdict for verdict in verdicts if verdict.figure is not None}
    lines = []
    if shown:
        links = [f"[{escape(name)}](figures/{name}.png)" for name in shown]
        lines += [f"The figures that show them: {', '.join(links)}.", ""]
    if beside := beside_lines(verdicts):
        lines += ["Beside the deciding rule, not deciding (at few seeds the bootstrap covers too seldom):", ""]
        lines += [*(f"- {escape(line)}" for line in beside), ""]
    return lines


def _design(measured: Measured) -> list[str]:
    """What the arms are allowed to differ in, and what each is."""
    plan, study = measured.plan, measured.study
    lines = ["## Design", ""]
    factor = ", ".join(f"`{path}`" for path in study.factor) or "none declared"
    seeds = len(study.trial_seeds)
    known = [planned.cost for planned in plan.groups if planned.cost is not None]
    shared = "shared by all groups (common random numbers)" if known else "the same for all groups"
    lines += [f"Declared factor: {factor}. {seeds} seeds, {shared}.", ""]
    header = ["group", "settings", *(["parameters", "steps", "GFLOP per trial"] if known else [])]
    lines += [f"| {' | '.join(header)} |", "|" + " --- |" * len(header)]
    for planned in plan.groups:
        settings = ", ".join(f"{path} = {label(value)}" for path, value in planned.group.settings.items()) or "the base"
        cells, cost = [planned.group.name, settings], planned.cost
        cells += [] if cost is None else [f"{cost.parameters:,}", f"{cost.steps:,}", f"{cost.flops / 1e9:,.3g}"]
        lines.append("| " + " | ".join(map(escape, cells)) + " |")
    stated = dict.fromkeys(planned.stated for planned in plan.groups if planned.stated)
    return [*lines, *(f"\nData: {escape(text)}." for text in stated), ""]


def _again(measured: Measured, environment: Mapping[str, Any], command: str) -> list[str]:
    packages = ", ".join(f"{name} {version}" for name, version in environment.get("packages", {}).items() if version)
    machine = "The environment was not recorded."
    if packages:
        machine = f"Python {environment['python']}, {packages}; {environment['processor']} ({environment['system']})."
    pinned = " BLAS pinned to one thread, denormals kept (no flush-to-zero)."
    files = "The study is in `study.yaml`, every group with all its defaults in `resolved.yaml`"
    if measured.plan.own_code:
        pinned, files = "", "The code as it was called is in `code.py`, the arms are in `comparison.yaml`"
    return [
        "## Run it again",
        "",
        "```",
        command,
        "```",
        "",
        f"{machine}{pinned} Hash of the results (equal hashes, equal bits): `{measured.hash}`. {files}, the numbers "
        "are in `results/`: `trials.parquet`, `curves.parquet` and `layers.parquet` of each chunk.",
        "",
    ]
