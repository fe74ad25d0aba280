"""Write a story to a run's folder: figures with their data, tables for a paper, report."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from gradlab.analysis.settling import price_open
from gradlab.errors import StoreError
from gradlab.report.export import render_latex
from gradlab.report.inside.views import VIEWS
from gradlab.report.markdown import relative_links, render_markdown
from gradlab.report.page import render_page
from gradlab.report.pictures import KINDS, Drawn, Pictures, draw_files
from gradlab.runs.store.folder import RunFolder
from gradlab.runs.store.ledger import look_data, read_ledger, record_look, recorded_files

if TYPE_CHECKING:
    from gradlab.report.story import Story

UNRECORDED = "that this report was made is not recorded in the ledger of the run"


def write_report(
    story: Story, folder: RunFolder, *, figures: bool = True, formats: Sequence[str] = ("html", "md")
) -> Path:
    """Write figures, data, tables and report to a run's folder; gives the path of the first format."""
    pictures = story.pictures if figures else Pictures()
    drawn = draw_files(pictures, story.question) if figures else Drawn({}, {})
    names = ["overview", *VIEWS, *story.measured.plan.catalog.names("figure")]
    shown = pictures.without(drawn.broken)
    contents = _render(story, shown, drawn, formats)
    gone = {f"figures/{name}.{kind}" for name in names for kind in KINDS} - contents.keys()
    if reason := _record_look(story, folder, contents, gone):
        story = replace(story, folder_notes=(*story.folder_notes, f"{UNRECORDED}: {reason}"))
        contents = _render(story, shown, drawn, formats)
    written = {}
    for name, content in contents.items():
        if name == "report.md":
            _require_linked_files(folder, content.decode())
        written[name] = folder.write_file(name, content)
    # remove figures of an earlier report last: the links of the report in the folder work at any moment
    folder.clear_figures(names, keep=drawn.files)
    return written[f"report.{formats[0]}"]


def _render(story: Story, shown: Pictures, drawn: Drawn, formats: Sequence[str]) -> dict[str, bytes]:
    """Every file of a report by name, those that others link to first."""
    contents = {f"figures/{name}": content for name, content in drawn.files.items()}
    contents["tables.tex"] = render_latex(story)
    if "md" in formats:
        contents["report.md"] = render_markdown(story, shown).encode()
    if "html" in formats:
        contents["report.html"] = render_page(story, shown, drawn.svg).encode()
    return contents


def _record_look(story: Story, folder: RunFolder, contents: Mapping[str, bytes], gone: Collection[str]) -> str | None:
    """Record in the run's ledger that its verdicts are seen now, and in which files; gives the reason if it cannot be.

    Files of an earlier report that stay, such as its other format, keep the hash with which they were written; those
    that were removed are no longer expected.
    """
    measured = story.measured
    statuses = {name: [measured.status(trial) for trial in own] for name, own in measured.by_group.items()}
    look = look_data(statuses, measured.hash, [v.outcome for v in story.verdicts], price_open(measured, story.verdicts))
    try:
        ledger = read_ledger(folder.path)
    except StoreError as error:
        return str(error)
    kept = {} if ledger is None else {n: h for n, h in recorded_files(ledger).items() if (folder.path / n).exists()}
    own = {name: sha256(content).hexdigest() for name, content in contents.items()}
    files = {name: found for name, found in {**kept, **folder.written, **own}.items() if name not in gone}
    return record_look(folder.path, look, files)


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


def _require_linked_files(folder: RunFolder, text: str) -> None:
    missing = [link for link in relative_links(text) if not (folder.path / link).is_file()]
    if missing:
        raise StoreError(f"{folder.path / 'report.md'}: links to files that are not there: {', '.join(missing)}")
