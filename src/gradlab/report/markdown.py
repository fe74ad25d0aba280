"""The Markdown report: the question and its answer on top, then what it rests on."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gradlab.report.tables import HOW, Table
from gradlab.words import join

if TYPE_CHECKING:
    from gradlab.report.pictures import MicroWorld, Pictures
    from gradlab.report.story import Design, Rerun, Story
    from gradlab.tell.why import Explanation

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#&])")


def escape(text: str) -> str:
    """Any name as plain text in Markdown: no markup, no HTML."""
    return _SPECIAL.sub(r"\\\1", text).replace("\\<", "&lt;").replace("\\>", "&gt;").replace("\\&", "&amp;")


def render_markdown(story: Story, pictures: Pictures) -> str:
    """The whole report; `pictures` are linked relative to its folder."""
    audit, charts = story.audit, pictures.charts
    lines = [f"# {escape(story.question)}", ""]
    if audit is not None and audit.mark is not None:
        lines += [f"> **{escape(audit.mark.capitalize())}.** {escape('; '.join(audit.faults))}.", ""]
    lines += [f"**{escape(story.answer)}**", ""]
    lines += [escape(story.because), ""] if story.because else []
    if story.notes:
        lines += [f"> {escape(' '.join(story.notes))}", ""]
    for line in (story.fairness if audit is not None and audit.fair else "", story.caveats, story.tally):
        lines += [escape(line), ""] if line else []
    if charts:
        lines += ["![overview](figures/overview.png)", ""]
    if story.findings:
        lines += [escape(story.findings), ""]
    if story.source:
        lines += [f"Source of the claim: {escape(story.source)}.", ""]
    if story.why is not None and story.why.known:
        lines += _why(story.why, story.name)
    if story.limits:
        lines += ["## What else could explain it", "", *_list(story.limits), ""]
    if story.claims is not None:
        lines += [f"## {story.claims.title}", "", *render_table(story.claims), "", escape(HOW), ""]
        lines += _evidence(story, pictures)
    lines += ["## Further numbers", "", *_list(story.further), ""] if story.further else []
    for table in (*story.tables, story.layer_table):
        if table is not None:
            lines += [f"## {table.title}", "", *render_table(table), ""]
    if audit is not None and story.audit_table is not None:
        lines += ["## Is the comparison fair?", "", escape(audit.answer), "", *render_table(story.audit_table), ""]
        if audit.cannot_see:
            lines += ["What this audit cannot see:", "", *_list(audit.cannot_see), ""]
    if story.failures:
        lines += ["## Trials that failed", "", *_list(story.failures), ""]
    if charts:
        lines += ["## Figures", ""]
        for name, chart in charts.items():
            lines += [f"![{escape(chart.title)}](figures/{name}.png)", "", f"*{escape(chart.caption)}*", ""]
    if pictures.missing:
        lines += ["Figures that could not be made:", "", *_list(pictures.missing), ""]
    if pictures.microworld is not None:
        lines += _microworld(pictures.microworld)
    lines += ["## Methods", "", escape(story.methods), ""]
    return "\n".join([*lines, *_design(story.design), *_rerun(story.rerun)])


def _why(told: Explanation, name: str) -> list[str]:
    """The causal chain as a table, a row for every link."""
    cells = [
        tuple(f"✗ {cell}" if broken else cell for cell, broken in zip(step.cells, step.breaks, strict=True))
        for step in told.chain
    ]
    rows = tuple(
        (step.title, step.what if step.what != step.title else "", *cell)
        for step, cell in zip(told.chain, cells, strict=True)
    )
    chain = Table("Why", ("link", "measured at", *told.groups), rows, notes=told.glossary)
    return ["## Why", "", *_list(told.closing(f"runs/{name}")), "", *render_table(chain), ""]


def _list(items: Iterable[str]) -> list[str]:
    return [f"- {escape(item)}" for item in items]


def _microworld(world: MicroWorld) -> list[str]:
    """The last step of every view, what to see in it, and the diagnosis."""
    arms = join(world.recording.arms)
    lines = [
        "## The micro-world",
        "",
        f"Two networks side by side: {escape(arms)}, at seed {world.recording.seed}, layer by layer.",
        "",
    ]
    lines += [*_list(diagnosis.words for diagnosis in world.diagnoses), ""]
    for view in world.views:
        lines += [f"![{escape(view.title)}](figures/{view.name}.png)", "", f"*{escape(view.caption)}*", ""]
    return lines


def relative_links(text: str) -> list[str]:
    """Every file that a report links to beside itself."""
    found = re.findall(r"(?<!\\)\]\(([^)\s]+)\)", text)
    return list(dict.fromkeys(link for link in found if "://" not in link and not link.startswith("#")))


def render_table(table: Table) -> Iterable[str]:
    """A table in Markdown, notes below."""
    yield "| " + " | ".join(map(escape, table.header)) + " |"
    yield "|" + " --- |" * len(table.header)
    for row in table.rows:
        yield "| " + " | ".join(map(escape, row)) + " |"
    for note in table.notes:
        yield f"\n*{escape(note)}*"


def _evidence(story: Story, pictures: Pictures) -> list[str]:
    """The figure of every claim, and the resampling methods beside the deciding rule."""
    shown = dict.fromkeys(v.figure for v in story.verdicts if v.figure is not None and v.figure in pictures.charts)
    lines = []
    if shown:
        links = [f"[{escape(name)}](figures/{name}.png)" for name in shown]
        lines += [f"The figures that show them: {', '.join(links)}.", ""]
    if story.resampling:
        lines += ["Beside the deciding rule, not deciding (at few seeds the bootstrap covers too seldom):", ""]
        lines += [*_list(story.resampling), ""]
    return lines


def _design(design: Design) -> list[str]:
    factor = ", ".join(f"`{path}`" for path in design.factor) or "none declared"
    return [
        "## Design",
        "",
        f"Declared factor: {factor}. {design.seeds}, {design.sharing}.",
        "",
        *render_table(design.groups),
        *(f"\nData: {escape(text)}." for text in design.data),
        "",
    ]


def _rerun(rerun: Rerun) -> list[str]:
    machine = "The environment was not recorded." if rerun.machine is None else escape(rerun.machine)
    pinned = " BLAS pinned to one thread, denormals kept (no flush-to-zero)."
    files = "The study is in `study.yaml`, every group with all its defaults in `resolved.yaml`"
    if rerun.code is not None:
        pinned, files = "", f"What was run is in `{rerun.code}`, the arms are in `comparison.yaml`"
    return [
        "## Run it again",
        "",
        "```",
        rerun.command,
        "```",
        "",
        f"{machine}{pinned} Hash of the results (equal hashes, equal bits): `{rerun.hash}`. {files}, the numbers "
        "are in `results/`: `trials.parquet`, `curves.parquet` and `layers.parquet` of each chunk.",
        "",
    ]


# The generated sentences of a report: the first screen, and all that follows, to be read as pages.


def first_screen(story: Story) -> list[str]:
    """Question, command, answer, remarks, fairness, caveats and claims, in Markdown."""
    word = f"**{story.answered.word}.** " if story.answered.word else ""
    mark = [f"*{story.audit.mark.capitalize()}.*", ""] if story.audit is not None and story.audit.mark else []
    lines = [f"### {story.question}", "", f"`gradlab run {story.name}`", "", *mark]
    lines += [f"{word}{' '.join(story.answered.sentences)}", ""]
    lines += [story.because, ""] if story.because else []
    for line in (*story.remarks, story.fairness, story.caveats, story.tally):
        lines += [line, ""] if line else []
    return lines


def further_sentences(story: Story) -> list[str]:
    """What else the numbers show, what cannot be attributed, every caption and both diagnoses, in Markdown."""
    lines = [f"### {story.question}", "", f"`gradlab run {story.name}`", ""]
    lines += [story.findings, ""] if story.findings else []
    if story.limits:
        lines += ["What else could explain it:", "", *(f"- {limit}" for limit in story.limits), ""]
    pictures = story.pictures
    lines += ["Figures:", "", *(f"- *{chart.title}.* {chart.caption}" for chart in pictures.charts.values())]
    lines += [*(f"- Not made: {reason}." for reason in pictures.missing), ""]
    if pictures.microworld is not None:
        lines += ["The micro-world:", "", *(f"- {one.words}" for one in pictures.microworld.diagnoses)]
        lines += [*(f"- *{view.title}.* {view.caption}" for view in pictures.microworld.views), ""]
    return lines
