"""Questions about a run that people ask again and again, answered from what is stored, with the place it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from gradlab.agents.answers import Row
from gradlab.agents.tables import claim_rows, differing_row
from gradlab.analysis.against import against
from gradlab.audits.compare import Status
from gradlab.report.result import Result, open_run
from gradlab.report.tables import summarize_against, tabulate_results
from gradlab.runs.store.ledger import read_ledger
from gradlab.runs.store.project import Project, ProjectRun, same_question
from gradlab.runs.store.status import is_run
from gradlab.words import counted

Question = Literal["same_setup", "rerun", "progress", "why", "what_differs", "which_numbers_changed"]
QUESTIONS: tuple[str, ...] = get_args(Question)
Told = tuple[str, list[str], list[Row]]


def ask(
    question: Question,
    run: ProjectRun,
    result: Result | None,
    project: Project,
    progress: tuple[str, float, float | None],
) -> Told:
    """The answer, where it comes from, and the rows that it rests on."""
    if question == "progress" or result is None:
        state, percent, left = progress
        remaining = "" if left is None else f", about {left:.0f} s left"
        done = "" if result is None else f": {_counts(result)}"
        return f"{run.id} is {state}, {percent:.0f} %{remaining}{done}.", [f"{run.folder}/results"], []
    if question == "rerun":
        return _rerun(run, result, project)
    if question == "why":
        return _why(run, result)
    if question == "which_numbers_changed":
        return _changed(run, result, project)
    return _setup(run, result, only_differences=question == "what_differs")


def _counts(result: Result) -> str:
    return ", ".join(f"{number} {word}" for word, number in result.story.counts.items() if number)


def _setup(run: ProjectRun, result: Result, *, only_differences: bool) -> Told:
    audit = result.audit
    if audit is None:
        return "Not known: this run was not audited.", [run.folder], []
    shown = [row for row in audit.rows if not only_differences or row.status is not Status.SAME]
    declared = f" It was declared unfair: “{run.declared}”." if run.declared else ""
    return audit.answer + declared, [f"{run.folder}/audit.json, table"], [differing_row(audit, row) for row in shown]


def _rerun(run: ProjectRun, result: Result, project: Project) -> Told:
    """When the results were trained, whether any were there before, and earlier runs of the same question."""
    ledger = read_ledger(project.folder / run.folder)
    if ledger is None:
        return "Not known: the ledger of this run is missing.", [run.folder], []
    chunks, begun = ledger.of("trials"), ledger.of("begun")
    old = sum(len(entry.data["trials"]) for entry in chunks if entry.data.get("found") in ("before", "adopted"))
    trained = sum(len(entry.data["trials"]) for entry in chunks) - old
    when = f" between {chunks[0].at} and {chunks[-1].at}" if chunks else ""
    again = f"; {counted(old, 'result')} were there before" if old else "; no result was there before"
    words = f"{counted(trained, 'trial')} were trained in this run{when}{again}."
    earlier = _earlier(run, project)
    if earlier:
        words += f" The same question was run before, with other seeds, in {', '.join(one.id for one in earlier)}."
    attempts = max((entry.data.get("attempt", 1) for entry in begun), default=1)
    words += f" Attempts in this folder: {attempts}. Hash of the results: {result.measured.hash}."
    places = [f"{run.folder}/ledger.jsonl, entries {', '.join(str(entry.number) for entry in (*begun, *chunks)[:8])}"]
    return words, places, []


def _why(run: ProjectRun, result: Result) -> Told:
    rows = [{key: row[key] for key in ("claim_id", "verdict", "reason", "measured")} for row in claim_rows(run, result)]
    words = " ".join(filter(None, (result.answer, result.story.findings, result.story.caveats)))
    return words, [f"{run.folder}: table claims", f"{run.folder}: table layers"], rows


def _changed(run: ProjectRun, result: Result, project: Project) -> Told:
    before = [one for one in _earlier(run, project) if is_run(project.folder / one.folder)]
    if not before:
        return "There is no earlier run of this question whose results are there.", ["the project's ledger"], []
    last = before[-1]
    found = against(open_run(project.folder / last.folder).measured, result.measured)
    table = tabulate_results(found)
    rows: list[Row] = [] if table is None else [dict(zip(table.header, row, strict=False)) for row in table.rows]
    return summarize_against(found), [f"{last.folder} against {run.folder}"], rows


def _earlier(run: ProjectRun, project: Project) -> Sequence[ProjectRun]:
    before = [one for one in project.read().runs.values() if int(one.id[1:]) < int(run.id[1:])]
    return [one for one in before if same_question(one.batch.topic, run.batch.topic)]
