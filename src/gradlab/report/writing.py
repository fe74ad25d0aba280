"""Write a story to a run's folder: figures with their data, tables for a paper, report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gradlab.errors import StoreError
from gradlab.report.export import render_latex
from gradlab.report.inside.views import VIEWS
from gradlab.report.markdown import relative_links, render_markdown
from gradlab.report.page import render_page
from gradlab.report.pictures import Drawn, Pictures, draw_files
from gradlab.report.story import Story
from gradlab.runs.store.account import look_data, record_look
from gradlab.runs.store.folder import RunFolder
from gradlab.runs.store.report_folder import ReportFolder

UNRECORDED = "that this report was made is not recorded in the ledger of the run"


def write_report(
    story: Story, folder: ReportFolder, *, figures: bool = True, formats: Sequence[str] = ("html", "md")
) -> Path:
    """Write figures, data, tables and report to a run's folder; gives the path of the first format."""
    story = _record_look(story, folder.path)
    pictures = story.pictures if figures else Pictures()
    drawn = draw_files(pictures, story.question) if figures else Drawn({}, {})
    for name, content in drawn.files.items():
        folder.write_file(f"figures/{name}", content)
    folder.write_file("tables.tex", render_latex(story))
    shown = pictures.without(drawn.broken)
    written = {}
    if "md" in formats:
        text = render_markdown(story, shown)
        _require_linked_files(folder, text)
        written["md"] = folder.write_text("report.md", text)
    if "html" in formats:
        written["html"] = folder.write_text("report.html", render_page(story, shown, drawn.svg))
    # remove figures of an earlier report last: the links of the report in the folder work at any moment
    names = ["overview", *VIEWS, *story.measured.plan.catalog.names("figure")]
    folder.clear_figures(names, keep=drawn.files)
    return written[formats[0]]


def _record_look(story: Story, folder: Path) -> Story:
    """Record in the run's ledger that its verdicts are seen now; the story says so if that is not possible."""
    measured = story.measured
    statuses = {name: [measured.status(trial) for trial in own] for name, own in measured.by_group.items()}
    outcomes = [verdict.outcome for verdict in story.verdicts]
    reason = record_look(folder, look_data(statuses, measured.hash, outcomes))
    return story if reason is None else replace(story, folder_notes=(*story.folder_notes, f"{UNRECORDED}: {reason}"))


def save_run(story: Story, out: Path) -> Path:
    """Write everything to a run's folder: study, results, audit, micro-world, layer names, report."""
    measured = story.measured
    with RunFolder.start(out, measured.plan, story.environment, story.command) as folder:
        folder.adopt(measured.records)
        keep_beside(story, folder)
        return write_report(story, folder)


def keep_beside(story: Story, folder: RunFolder) -> None:
    """Keep what a report needs besides the results."""
    if story.audit is not None:
        folder.keep_audit(story.audit)
    if story.recording is not None:
        folder.keep_microworld(story.recording.to_json())
    ids = {planned.group.name: planned.id for planned in story.measured.plan.groups}
    folder.keep_layer_names({ids[group]: names for group, names in story.layer_names.items()})


def _require_linked_files(folder: ReportFolder, text: str) -> None:
    missing = [link for link in relative_links(text) if not (folder.path / link).is_file()]
    if missing:
        raise StoreError(f"{folder.path / 'report.md'}: links to files that are not there: {', '.join(missing)}")
