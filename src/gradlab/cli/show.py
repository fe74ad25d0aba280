"""What the command line says about a tuning before it is run."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from gradlab.analysis.against import Against
from gradlab.analysis.claims.power import describe_shortfalls, list_shortfalls
from gradlab.analysis.formatting import number
from gradlab.analysis.scoreboard import Scoreboard
from gradlab.audits.audit import Audit
from gradlab.cli.output import console, duration, escape, hang
from gradlab.cli.progress import running_lines
from gradlab.comparing.live import Live
from gradlab.plans.cost import measure_speed
from gradlab.plans.plan import Plan
from gradlab.report import scoreboard as boards
from gradlab.report import tables
from gradlab.report.predicted import Predicted
from gradlab.report.result import Result
from gradlab.report.story import QUICK_NOTE, Story
from gradlab.report.tables import Table, tabulate_audit
from gradlab.report.tuning import describe_edges
from gradlab.runs.store.status import RunStatus
from gradlab.spec.paths import label


def tuning_lines(planned: Plan) -> list[str]:
    """What is tuned, what both phases cost, and what was chosen; empty of a study that tunes nothing."""
    tuning = planned.tuning
    if tuning is None:
        return []
    speed, tune, tried = measure_speed(), tuning.tune, tuning.plan
    arms = len(planned.groups)
    before = (
        f"phase 1, tuning: {arms} arms × {len(tried.groups) // arms:,} values of {', '.join(tune.paths)} "
        f"× {tune.seeds} seeds = {len(tried.trials):,} trials by {tune.by}, "
        f"about {duration(tried.seconds(speed))} on one core"
    )
    judged, untuned = len(planned.trials), 0 if tuning.untuned is None else len(tuning.untuned.trials)
    seconds = planned.seconds(speed) * (2 if untuned else 1)
    also = f" and {untuned:,} untuned" if untuned else ""
    after = f"phase 2, judging: {judged:,} tuned{also} trials, about {duration(seconds)} on one core"
    best = [f"{arm}: {candidate.words}" for arm, candidate in (tuning.chosen or {}).items()]
    return [before, after, *([f"chosen: {'; '.join(best)}"] if best else [])]


def tuning_plan_json(planned: Plan) -> dict[str, Any] | None:
    """The phases of a study that tunes, with their cost."""
    tuning = planned.tuning
    if tuning is None:
        return None
    speed = measure_speed()
    untuned = tuning.untuned
    return {
        "by": tuning.tune.by,
        "values": [{"arm": each.arm, **dict(each.values)} for each in tuning.candidates],
        "seeds": list(tuning.tune.tuning_seeds),
        "trials": [{"id": each.id, "group": each.group, "seed": each.seed} for each in tuning.plan.trials],
        "flops": tuning.plan.flops,
        "seconds": tuning.plan.seconds(speed),
        "untuned": None
        if untuned is None
        else {"trials": len(untuned.trials), "flops": untuned.flops, "seconds": untuned.seconds(speed)},
        "chosen": None if tuning.chosen is None else {arm: dict(best.values) for arm, best in tuning.chosen.items()},
    }


# What the command line prints: plan, status, result, tables. Color only on a terminal, never with NO_COLOR.

MOST_ROWS = 60
"""Rows of a table on the terminal."""
LONGEST_WORD, LONGEST_HEADER = 24, 12
"""Characters of a word that is not folded."""


def plan(planned: Plan, stream: TextIO, done: int = 0) -> None:
    """The trials, their cost, and how many of them are already done."""
    to = console(stream)
    study = planned.resolved.study
    to.print(f"[bold]{escape(study.question)}[/bold]")
    seeds = len(study.trial_seeds)
    to.print(
        f"{len(planned.groups)} groups × {seeds} seeds = {len(planned.trials):,} trials, "
        f"{_say_flops(planned.flops)}, {planned.bytes / 2**20:,.0f} MiB each, "
        f"about {duration(planned.seconds())} on one core" + (" (reduced budget)" if planned.resolved.quick else "")
    )
    for line in tuning_lines(planned):
        to.print(escape(line))
    distinct = len({trial.id for trial in planned.all_trials})
    if distinct < len(planned.all_trials):
        to.print(f"{distinct:,} of them are distinct: groups with the same settings share their trials")
    if done:
        to.print(f"{done:,} trials are already done, {distinct - done:,} are left")
    if short := describe_shortfalls(study, quick=planned.resolved.quick):
        to.print(f"[yellow]{escape(short)}[/yellow]")
    for group in planned.groups if stream is sys.stdout else ():
        settings = group.group.settings
        short = ", ".join(f"{path.rpartition('.')[2]}={label(value)}" for path, value in settings.items())
        whole = ", ".join(f"{path}={label(value)}" for path, value in settings.items()) or "the base"
        name = whole if short == group.group.name else f"{group.group.name}: {whole}"
        to.print(escape(hang("  ", f"{name}; {group.cost.parameters:,} parameters, {group.cost.steps:,} steps")))
    for text in dict.fromkeys(group.stated for group in planned.groups if group.stated):
        to.print(escape(f"  data: {text}"))
    for text in dict.fromkeys(f"{group.engine} engine, {group.reason}" for group in planned.groups if group.reason):
        to.print(escape(f"  {text}"))


def _say_flops(flops: float) -> str:
    unit, size = next(((unit, size) for unit, size in (("P", 1e15), ("T", 1e12)) if flops >= size), ("G", 1e9))
    return f"{flops / size:.3g} {unit}FLOP"


def lines(texts: Iterable[str], stream: TextIO) -> None:
    """Sentences, one per line."""
    to = console(stream)
    for text in texts:
        to.print(escape(text), highlight=False)


def plan_json(planned: Plan, done: int = 0) -> dict[str, Any]:
    """The plan as one object."""
    speed = measure_speed()
    return {
        "study": planned.resolved.study.name,
        "question": planned.resolved.study.question,
        "groups": [
            {
                "name": group.group.name,
                "settings": dict(group.group.settings),
                "parameters": group.cost.parameters,
                "steps": group.cost.steps,
                "flops": group.cost.flops,
                "bytes": group.cost.bytes,
                "seconds": speed.seconds(group.cost),
                "data": group.stated or None,
                "engine": group.engine,
            }
            for group in planned.groups
        ],
        "trials": [{"id": trial.id, "group": trial.group, "seed": trial.seed} for trial in planned.trials],
        "done": done,
        "claims_that_cannot_settle": [
            {"claim": short.claim.text, "needs_seeds": short.needs}
            for short in list_shortfalls(planned.resolved.study, quick=planned.resolved.quick)
        ],
        "flops": planned.flops,
        "bytes": planned.bytes,
        "seconds": planned.seconds(speed),
        **({"tuning": tuning_plan_json(planned)} if planned.tuning is not None else {}),
    }


def result(found: Result, folder: Path, *, tables: bool = False) -> None:
    """The answer, what it rests on and how the claims came out, on stdout; the path of the report on stderr."""
    to = console(sys.stdout)
    story = found.story
    if story.audit is not None and story.audit.mark is not None:
        to.print(f"[bold red]{story.audit.mark.upper()}[/bold red] {escape('; '.join(story.audit.faults))}\n")
    word = f"[bold green]{escape(story.answered.word)}.[/bold green] " if story.answered.word else ""
    to.print(f"{word}[bold]{escape(' '.join(story.answered.sentences))}[/bold]", highlight=False)
    quick = [QUICK_NOTE] if found.measured.plan.quick else []
    edges = describe_edges(story.tuning) if story.tuning is not None else ()
    for line in (
        *quick,
        *story.remarks,
        *edges,
        story.fairness if story.audit and story.audit.fair else "",
        story.caveats,
    ):
        if line:
            to.print(escape(line), highlight=False)
    if story.tally:
        hint = "" if tables else " (--tables shows them all)"
        to.print(escape(f"{story.tally}{hint}"), highlight=False)
    if tables:
        print_tables(story)
    for line in story.failures:
        to.print(escape(f"failed: {line}"))
    notes = console(sys.stderr)
    for note in story.folder_notes:
        notes.print(escape(note), soft_wrap=True)
    if story.unfinished:
        notes.print("unfinished: the finished trials are kept; run the same command to resume")
    notes.print(escape(f"report: {folder / 'report.html'}   (and report.md, figures/)"), soft_wrap=True)


def print_tables(story: Story) -> None:
    """Everything that a report has in tables: findings, claims, results."""
    to = console(sys.stdout)
    to.print()
    if story.audit is not None:
        for limit in story.audit.limits:
            to.print(escape(f"  cannot be attributed: {limit}"))
    if story.findings:
        to.print("\n" + escape(story.findings) + "\n", highlight=False)
    for table in (story.claims, *story.tables):
        if table is not None:
            print_table(to, table)


def audit(found: Audit, stream: TextIO) -> None:
    """Both answers, and the arms side by side."""
    to = console(stream)
    to.print("[bold]1. Same set-up except the declared factor?[/bold]")
    to.print(_indented(f"{found.answer}\n"), highlight=False)
    to.print("[bold]2. What can this design not attribute, even so?[/bold]")
    for limit in [limit for limit in found.limits if limit not in found.flaws] or ["Nothing that the audit knows of."]:
        to.print(_indented(f"- {limit}"), highlight=False)
    to.print()
    print_table(to, tabulate_audit(found))
    if found.cannot_see:
        to.print("[bold]What this audit cannot see[/bold]")
        for sentence in found.cannot_see:
            to.print(_indented(f"- {sentence}"), highlight=False)


def _indented(sentence: str, columns: int = 3) -> Padding:
    """Some columns in, also where the sentence is wrapped."""
    return Padding(Text.from_markup(escape(sentence)), (0, 0, 0, columns), expand=False)


def predicted(found: Predicted, stream: TextIO, *, layers: bool) -> None:
    """What theory expects of every group: sentences, and its layers in one table or, on a narrow terminal, in two.

    Without tables, groups of which theory says the same stand together.
    """
    to = console(stream)
    alike: dict[Any, list[str]] = {}
    for group in found.groups:
        alike.setdefault((*found.sentences(group), group if layers else ""), []).append(group)
    for place, groups in enumerate(alike.values()):
        to.print(f"{chr(10) if place else ''}[bold]{escape(chr(10).join(map(found.names.group, groups)))}[/bold]")
        for sentence in found.sentences(groups[0]):
            to.print(_indented(sentence, 2))
        if layers:
            whole = found.table(groups[0])
            for table in [whole] if _fits(whole, to.width) else found.halves(groups[0]):
                print_table(to, table, "with --json")


def status(found: RunStatus, stream: TextIO) -> None:
    """The state of a run."""
    to = console(stream)
    to.print(f"[bold]{escape(found.study)}[/bold]: {escape(found.question)}")
    words = [f"{found.done:,} of {found.planned:,} trials done"]
    words += [f"{found.diverged:,} of them diverged"] if found.diverged else []
    words += [f"{found.failed:,} failed"] if found.failed else []
    words += [f"{len(found.running):,} running"] if found.alive else []
    to.print(escape(", ".join([*words, f"{found.left:,} left"])))
    if found.phase is not None:
        counts = ", ".join(f"{phase.name} {phase.done:,} of {phase.planned:,}" for phase in found.phases)
        to.print(escape(f"phase: {found.phase} ({counts})"))
    if found.alive:
        to.print(escape(f"alive: {found.holder}"))
        for line in running_lines(found.running):
            to.print(escape(f"  {line}"))
        if found.seconds_left is not None:
            to.print(f"about {duration(found.seconds_left)} left")
    elif found.finished:
        to.print("finished" if not found.failed else "finished; run the same command to retry the failed trials")
    else:
        to.print("not running; run the same command to resume")
    for line in found.damaged:
        to.print(escape(line), soft_wrap=True)


def live(found: Live, stream: TextIO) -> None:
    """A watch that goes on, or was cut off: where it is, its loss, and what was found last."""
    to, state = console(stream), found.to_json()
    how = "running" if state["alive"] else "not running; `gradlab report` makes a run of what is there"
    to.print(escape(f"{state['folder']}: watch of {state['watched']}, {how}"), highlight=False)
    if state["step"] is None:
        to.print("No step was probed yet.", highlight=False)
        return
    loss = "" if state["loss"] is None else f", loss {number(float(state['loss']), 4)}"
    to.print(f"{state['moments']:,} steps probed, the latest is step {state['step']:,}{loss}", highlight=False)
    for line in state["diagnosis"] or ["No step probed so far shows anything wrong."]:
        to.print(escape(str(line)), highlight=False)


def runs(found: Sequence[RunStatus], stream: TextIO) -> None:
    """Runs, one line each."""
    to = console(stream)
    if not found:
        to.print("no runs below this folder; `gradlab run identity` makes one, `gradlab list` shows what there is")
        return
    width = max(len(each.folder) for each in found)
    for each in found:
        state = "running" if each.alive else "finished" if each.finished else "not running"
        count = f"{each.done + each.failed:,} of {each.planned:,}"
        failed = f", {each.failed:,} failed" if each.failed else ""
        line = hang(f"{each.folder:<{width}}  {state:<11}  {count:>15} trials{failed}  ", each.question)
        to.print(escape(line), no_wrap=True, overflow="ignore", crop=False)


def against(found: Against) -> None:
    """Two runs side by side."""
    to = console(sys.stdout)
    to.print(f"[bold]{escape(tables.summarize_against(found))}[/bold]\n")
    for table in (tables.tabulate_settings(found), tables.tabulate_results(found)):
        if table is not None:
            print_table(to, table)


def print_table(to: Console, table: Table, whole: str = "in the report") -> None:
    """A table with its notes; a very long one is cut, with a line that says where to find all of it."""
    shown = replace(table, rows=table.rows[:MOST_ROWS])
    for piece in _side_by_side(shown, to.width):
        to.print(_rich(piece, to.width))
    if len(table.rows) > MOST_ROWS:
        to.print(f"  and {len(table.rows) - MOST_ROWS:,} rows more, {whole}")
    for note in table.notes:
        to.print(escape(f"  {note}"))


def _rich(table: Table, width: int) -> RichTable:
    rich = RichTable(title=escape(table.title), title_justify="left", title_style="bold", header_style="bold")
    for index, (name, room) in enumerate(zip(table.header, _widths(table, width), strict=True)):
        side: Any = "right" if index in table.numbers else "left"
        rich.add_column(escape(name), justify=side, width=room, overflow="fold")
    for row in table.rows:
        rich.add_row(*map(escape, row))
    return rich


def _side_by_side(table: Table, width: int) -> list[Table]:
    """The table, or several if its columns do not fit the width; each repeats the columns with the names of rows."""
    least = _least_widths(table, width)
    names = [0, 1] if len(table.header) > 2 and 1 not in table.numbers and sum(least[:2]) < width // 2 else [0]
    pieces: list[list[int]] = [names.copy()]
    for index in range(len(names), len(table.header)):
        if len(pieces[-1]) > len(names) and _with_frame(least[i] for i in (*pieces[-1], index)) > width:
            pieces.append(names.copy())
        pieces[-1].append(index)
    if len(pieces) == 1:
        return [table]
    return [
        replace(
            table,
            title=table.title if number == 0 else f"{table.title} (continued)",
            header=tuple(table.header[i] for i in piece),
            rows=tuple(tuple(row[i] for i in piece) for row in table.rows),
            numbers=tuple(place for place, i in enumerate(piece) if i in table.numbers),
        )
        for number, piece in enumerate(pieces)
    ]


def _widths(table: Table, width: int) -> list[int]:
    """Width of each column: its longest cell, or less if all do not fit, but at least its longest word."""
    found = _least_widths(table, width)
    wanted = [max(map(cell_len, column)) for column in zip(table.header, *table.rows, strict=True)]
    while _with_frame(found) < width and (narrow := [i for i, room in enumerate(found) if room < wanted[i]]):
        found[min(narrow, key=lambda i: found[i])] += 1
    return found


def _least_widths(table: Table, width: int) -> list[int]:
    """The longest word of each column. A number that is cut (4.5 × …) is wrong, so names are folded first."""
    found = []
    for index, (name, *cells) in enumerate(zip(table.header, *table.rows, strict=True)):
        longest = max((cell_len(word) for cell in cells for word in cell.replace(" × ", "_×_").split()), default=1)
        header = max(map(cell_len, name.split()), default=1)
        found.append(max(min(longest, width // 3 if index == 0 else LONGEST_WORD), min(header, LONGEST_HEADER)))
    return found


def _fits(table: Table, width: int) -> bool:
    """Whether no cell has to be folded."""
    columns = zip(table.header, *table.rows, strict=True)
    return _with_frame(max(map(cell_len, (*name.split(), *cells))) for name, *cells in columns) <= width


def _with_frame(widths: Iterable[int]) -> int:
    """The width of a table with columns of these widths."""
    return 1 + sum(room + 3 for room in widths)


def audit_line(found: Audit) -> None:
    """Answer 1 before the run begins, on stderr."""
    notes = console(sys.stderr)
    notes.print(escape(f"same set-up except the factor? {found.answer}"), soft_wrap=not notes.is_terminal)


def begins(planned: Plan, left: int) -> None:
    """One line before a study of several, on stderr."""
    study = planned.study
    to = console(sys.stderr)
    planned_trials = len(planned.all_trials)
    trials = f"{left:,} of {planned_trials:,} trials" if left < planned_trials else f"{left:,} trials"
    to.print(f"[bold]{escape(study.name)}[/bold]: {escape(study.question)} ({trials})", soft_wrap=not to.is_terminal)


def scoreboard(board: Scoreboard, folder: Path, stream: TextIO) -> None:
    """Every claim of every write-up, every audit, every confound."""
    to = console(stream)
    for table in (*boards.tabulate_claims(board), boards.tabulate_audits(board), boards.tabulate_confounds(board)):
        print_table(to, table)
    to.print(f"[bold]{escape(boards.summarize(board))}[/bold]", highlight=False)
    console(sys.stderr).print(escape(f"scoreboard: {folder / 'scoreboard.md'}"), soft_wrap=True)


def frames(tables: Sequence[tuple[str, Any]], closing: str, stream: TextIO) -> None:
    """Data frames as tables, without columns that are empty, and a closing line."""
    to = console(stream)
    for title, whole in tables:
        frame = whole.dropna(axis="columns", how="all") if len(whole) else whole
        rows = tuple(tuple(_format_cell(value) for value in row) for row in frame.itertuples(index=False))
        numbers = tuple(place for place, kind in enumerate(frame.dtypes) if kind.kind in "iuf")
        print_table(to, Table(title, tuple(map(str, frame.columns)), rows, numbers=numbers), "with --json")
    to.print(escape(closing), highlight=False)


def _format_cell(value: Any) -> str:
    if isinstance(value, float):
        return "–" if math.isnan(value) else number(value, 3)
    return "–" if value is None else str(value)
