"""A report on runs of a project in which every number cites the run, the table and the cell that it comes from.

A number is followed by `[n]`; under Sources, n names run, table, row and column, so that `get_table` gives the cell
again. What was explored, claimed and deleted besides is told whatever the runs are: nothing can be left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gradlab.agents.answers import DIGITS, quoted
from gradlab.agents.tables import claim_rows
from gradlab.report.markdown import escape
from gradlab.report.result import Result
from gradlab.runs.store.files import write_bytes
from gradlab.runs.store.project import Project, ProjectRun, ProjectState, Standing
from gradlab.tell.project import say_claims, tell_project
from gradlab.words import counted, written

FOLDER = "reports"


class _Sources:
    """The cells that were cited, in order."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def cite(self, value: object, place: str) -> str:
        """A number as it is printed, with the number of its source."""
        exact = f"{value:.{DIGITS}g}" if isinstance(value, float) else value
        line = f"{place} = {exact}" if value != "" else place
        if line not in self.lines:
            self.lines.append(line)
        shown = written(value, 4) if isinstance(value, int | float) else str(value)
        return f"{shown} [{self.lines.index(line) + 1}]"


def write_project_report(project: Project, runs: Sequence[tuple[ProjectRun, Result | None]]) -> tuple[Path, str]:
    """Write it to the project's folder; gives the path and the Markdown."""
    state, sources = project.read(), _Sources()
    lines = [f"# Report on {', '.join(run.id for run, _ in runs)}", ""]
    for run, result in runs:
        lines += [f"## {run.id}: {escape(quoted(run.batch.topic))}", ""]
        lines += ["The folder of this run is not there.", ""] if result is None else _on_run(run, result, sources)
        facts = tell_project(Standing(state, run))
        lines += [*(f"- {escape(fact.words)} {_entry(state, sources)}" for fact in facts), ""]
    lines += _on_project(state, sources)
    lines += ["## Sources", "", *(f"{number}. {escape(line)}" for number, line in enumerate(sources.lines, 1)), ""]
    text = "\n".join(lines)
    path = project.folder / FOLDER / f"{'-'.join(run.id for run, _ in runs)}.md"
    write_bytes(path, text.encode())
    return path, text


def _entry(state: ProjectState, sources: _Sources) -> str:
    """The source of what the ledger says."""
    return sources.cite("", f"gradlab.ledger, entry {len(state.entries)}, sha256 {state.head}").strip()


def _on_run(run: ProjectRun, result: Result, sources: _Sources) -> list[str]:
    """Fairness, what is unfinished, every claim with its numbers, and the headline by group."""
    audit = result.audit
    lines = [f"Question: {escape(quoted(result.study.question))}", ""]
    if audit is None or audit.mark is not None:
        why = "" if audit is None else f" {escape(quoted('; '.join(audit.faults), 600))}"
        lines += [f"**{'Not audited' if audit is None else str(audit.mark).capitalize()}.**{why}", ""]
    else:
        lines += ["The arms differ only in the declared factor (audit.json).", ""]
    if result.unfinished:
        lines += ["**Unfinished: only the trials that are done so far are in these numbers.**", ""]
    for row in claim_rows(run, result):
        name = f"{run.id}, table claims, claim_id={row['claim_id']}"
        over = row["settled_over_project"]
        lines.append(f"- {row['claim_id']} {escape(str(row['text']))}: **{escape(_word(str(row['verdict'])))}**"
                     f" (over all claims of the project: {'not settled' if over == 'no' else over})")  # fmt: skip
        for key in [key for key in row if key.endswith("value")]:
            at = key.removesuffix("value")
            value, low, high, seeds = (
                sources.cite(row[f"{at}{cell}"], f"{name}, {at}{cell}") for cell in ("value", "low", "high", "seeds")
            )
            side = escape(quoted(row[f"{at}of"], 120))
            lines.append(f"  - {side}: {value}, from {low} to {high} with the interval, seeds: {seeds}")
        if row["p"] is not None:
            p, level = sources.cite(row["p"], f"{name}, p"), sources.cite(row["level"], f"{name}, level")
            lines.append(f"  - p {p}, which had to be at most {level}")
    headline = result.measured.headline
    if headline is not None and headline.metric in result.measured.metrics:
        lines += ["", f"By group, {escape(headline.metric)}:", ""]
        for summary in result.table().to_dict("records"):
            if summary["metric"] == headline.metric:
                where = f"{run.id}, table summary, group={summary['group']}, metric={headline.metric}"
                mean = sources.cite(summary["mean"], f"{where}, mean")
                lines.append(f"- {escape(quoted(summary['group'], 120))}: mean {mean}")
    return [*lines, ""]


def _word(verdict: str) -> str:
    """A verdict without how many seeds it needs: that number has no cell."""
    return verdict.partition(" (needs")[0]


def _on_project(state: ProjectState, sources: _Sources) -> list[str]:
    """Everything that was explored and claimed in this project, whatever the report is about."""
    entry = _entry(state, sources)
    unsettled = [c for c in state.claims if c.settled is None]
    gone = [run.id for run in state.runs.values() if run.deleted]
    lines = [
        "## The whole project",
        "",
        f"- {counted(len(state.claims), 'claim')} frozen, {state.settled} settled over the project; "
        f"{counted(len(state.explored), 'exploration')}; {counted(len(state.runs), 'run')}. {entry}",
        f"- Deleted: {', '.join(gone) or 'none'}. {entry}",
    ]
    lines += [f"- Not settled over the project: {escape(say_claims(state, unsettled))}. {entry}"] if unsettled else []
    lines += [f"- The ledger is not whole: {escape(problem)} {entry}" for problem in state.problems]
    return [*lines, ""]
