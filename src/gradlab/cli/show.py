"""What the command line prints: plan, status, result, tables. Color only on a terminal, never with NO_COLOR."""

from __future__ import annotations

import math
import sys
import textwrap
import webbrowser
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from gradlab.analysis.against import Against
from gradlab.analysis.claims.power import describe_shortfalls, list_shortfalls
from gradlab.analysis.scoreboard import Scoreboard
from gradlab.audits.audit import Audit
from gradlab.cli.output import duration, hang, visible
from gradlab.cli.terminal import Terminal, escape
from gradlab.plans.cost import measure_speed
from gradlab.plans.plan import Plan
from gradlab.report import scoreboard as boards
from gradlab.report import tables
from gradlab.report.predicted import Predicted
from gradlab.report.result import Result
from gradlab.report.story import QUICK_NOTE, Story
from gradlab.report.tables import Table, tabulate_audit, tabulate_parts
from gradlab.running.verify import Verification
from gradlab.spec.paths import label
from gradlab.tell.answers import verdicts_of
from gradlab.tell.methods import describe_edges
from gradlab.tell.predictions import explain_terms
from gradlab.tell.why import Explanation, tell_test
from gradlab.words import rounded

MOST_ROWS = 60
"""Rows of a table on the terminal."""
LONGEST_WORD, LONGEST_HEADER = 24, 12
"""Characters of a word that is not folded."""


def plan(planned: Plan, stream: TextIO, done: int = 0) -> None:
    """The trials, their cost, and how many of them are already done."""
    to = Terminal(stream)
    study = planned.resolved.study
    to.print(f"[bold]{escape(study.question)}[/bold]")
    seeds, until = len(study.trial_seeds), study.until_settled
    to.print(
        f"{len(planned.groups)} groups × {seeds} seeds = {len(planned.trials):,} trials, "
        f"{_say_flops(planned.flops)}, {planned.bytes / 2**20:,.0f} MiB each, "
        f"about {duration(planned.seconds())} on one core" + (" (reduced budget)" if planned.resolved.quick else "")
    )
    to.say(*tuning_lines(planned))
    if until is not None:
        to.print(f"until settled: more seeds in rounds, up to {until.most:,} per group, where a claim is open")
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
        to.say(hang("  ", f"{name}; {group.cost.parameters:,} parameters, {group.cost.steps:,} steps"))
    groups = planned.groups
    to.say(*dict.fromkeys(group.stated for group in groups if group.stated), indent="  data: ")
    to.say(*dict.fromkeys(f"{group.engine} engine, {group.reason}" for group in groups if group.reason), indent="  ")


def _say_flops(flops: float) -> str:
    unit, size = next(((unit, size) for unit, size in (("P", 1e15), ("T", 1e12)) if flops >= size), ("G", 1e9))
    return f"{flops / size:.3g} {unit}FLOP"


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
        "trials": _trials_json(planned),
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


def _trials_json(planned: Plan) -> list[dict[str, Any]]:
    return [{"id": trial.id, "group": trial.group, "seed": trial.seed} for trial in planned.trials]


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
        "values": [{"arm": candidate.arm, **dict(candidate.values)} for candidate in tuning.candidates],
        "seeds": list(tuning.tune.tuning_seeds),
        "trials": _trials_json(tuning.plan),
        "flops": tuning.plan.flops,
        "seconds": tuning.plan.seconds(speed),
        "untuned": None
        if untuned is None
        else {"trials": len(untuned.trials), "flops": untuned.flops, "seconds": untuned.seconds(speed)},
        "chosen": None if tuning.chosen is None else {arm: dict(best.values) for arm, best in tuning.chosen.items()},
    }


def result(run: Result, folder: Path | None, *, tables: bool = False, verdicts: bool = False) -> None:
    """The answer, what it rests on and how the claims came out, on stdout; the path of the report on stderr.

    `verdicts` prints each of them with its interval and p, and what else the numbers show.
    """
    to, notes, story = Terminal(), Terminal(sys.stderr), run.story
    if story.audit is not None and story.audit.mark is not None:
        to.print(f"[bold red]{story.audit.mark.upper()}:[/bold red] {escape('; '.join(story.audit.faults))}\n")
    word = f"[bold green]{escape(story.answered.word)}.[/bold green] " if story.answered.word else ""
    to.print(f"{word}[bold]{escape(' '.join(story.answered.sentences))}[/bold]")
    to.say(*filter(None, (story.because,)))
    quick = QUICK_NOTE if run.measured.plan.quick else ""
    edges = describe_edges(story.tuning) if story.tuning is not None else ()
    fairness = story.fairness if story.audit and story.audit.fair else ""
    to.say(*filter(None, (quick, *story.remarks, *edges, fairness, story.caveats)))
    parts = tabulate_parts(run.measured)
    verdicts = verdicts and parts is None
    judged = verdicts_of(run.measured)  # without their figures, which a terminal does not show
    for verdict in judged if verdicts else ():
        to.say(hang("  ", f"{verdict.claim.text}: {verdict.words}; {verdict.reason}; {verdict.measured}"))
    rules = {f"by {verdict.rule}; it assumes that {verdict.assumes}" for verdict in judged if verdict.rule}
    to.say(*(hang("  ", rule) for rule in sorted(rules) if verdicts))
    if verdicts and story.findings and len(run.measured.group_names) > 2:
        to.say(story.findings)
    if parts is not None and not tables:
        print_table(to, parts)
    elif story.tally and not verdicts:
        to.say(story.tally + ("" if tables else " (--tables shows them all)"))
    if tables:
        print_tables(story)
    to.say(*story.failures, indent="failed: ")
    notes.say(*story.folder_notes, soft_wrap=True)
    if story.unfinished:
        notes.print("unfinished: the finished trials are kept; run the same command to resume")
    if folder is not None:
        notes.say(f"report: {folder / 'report.html'}   (and report.md, figures/)", soft_wrap=True)


CELL, ARROW = 30, "  ↓"
"""Columns of a cell of the causal chain, and what leads from one link to the next."""


def why(told: Explanation, run: str) -> None:
    """The causal chain from init to result, a column per group, and what would test it."""
    to = Terminal()
    to.print(f"[bold]{escape(told.because)}[/bold]\n")
    if not told.known:
        return
    name = 80 - 2 * CELL
    to.print(f"{'':<{name}}" + "".join(f"[bold]{escape(f'{group:<{CELL}}')}[/bold]" for group in told.groups))
    for place, step in enumerate(told.chain):
        if place:
            to.print(f"{ARROW:<{name}}".rstrip())
        left = [step.title, *(textwrap.wrap(step.what, name - 3) if step.what not in (step.title, "") else ())]
        cells = [
            textwrap.wrap(f"{'✗ ' if broken else ''}{cell}", CELL - 1) or [""]
            for cell, broken in zip(step.cells, step.breaks, strict=True)
        ]
        for line in range(max(map(len, (left, *cells)))):
            texts = [column[line] if line < len(column) else "" for column in (left, *cells)]
            head, one, two = (f"{text:<{size}}" for text, size in zip(texts, (name, CELL, CELL), strict=True))
            colors = ["red" if broken else "default" for broken in step.breaks]
            to.print(f"{escape(head)}[{colors[0]}]{escape(one)}[/][{colors[1]}]{escape(two.rstrip())}[/]")
    to.print()
    to.say(*told.closing(run), *told.glossary)


def tested(run: Result, folder: Path) -> None:
    """What mending a link of the chain changed."""
    to, story = Terminal(), run.story
    word = f"[bold green]{escape(story.answered.word)}.[/bold green] " if story.answered.word else ""
    to.print(f"{word}[bold]{escape(' '.join(story.answered.sentences))}[/bold]")
    to.say(*filter(None, (tell_test(run.measured), story.fairness, story.caveats)))
    Terminal(sys.stderr).say(f"report: {folder / 'report.html'}", soft_wrap=True)


def print_tables(story: Story) -> None:
    """Everything that a report has in tables: findings, claims, results."""
    to = Terminal()
    to.print()
    if story.audit is not None:
        to.say(*story.audit.limits, indent="  cannot be attributed: ")
    if story.findings:
        to.say("", story.findings, *story.further, "")
    for table in (story.claims, *story.tables):
        if table is not None:
            print_table(to, table)


def audit(audited: Audit) -> None:
    """Both answers, and the arms side by side."""
    to = Terminal()
    to.print("[bold]1. Same set-up except the declared factor?[/bold]")
    to.print(_indented(f"{audited.answer}\n"))
    to.print("[bold]2. What can this design not attribute, even so?[/bold]")
    for limit in [limit for limit in audited.limits if limit not in audited.flaws] or [
        "Nothing that the audit knows of."
    ]:
        to.print(_indented(f"- {limit}"))
    to.print()
    print_table(to, tabulate_audit(audited))
    if audited.cannot_see:
        to.print("[bold]What this audit cannot see[/bold]")
        for sentence in audited.cannot_see:
            to.print(_indented(f"- {sentence}"))


def _indented(sentence: str, columns: int = 3) -> Padding:
    """Some columns in, also where the sentence is wrapped."""
    return Padding(Text.from_markup(escape(sentence)), (0, 0, 0, columns), expand=False)


def predicted(prediction: Predicted, *, layers: bool) -> None:
    """What theory expects of every group: sentences, and its layers in one table or, on a narrow terminal, in two.

    Without tables, groups of which theory says the same stand together.
    """
    to, said = Terminal(), list[str]()
    alike: dict[Any, list[str]] = {}
    for group in prediction.groups:
        alike.setdefault((*prediction.sentences(group), group if layers else ""), []).append(group)
    for place, groups in enumerate(alike.values()):
        to.print(f"{chr(10) if place else ''}[bold]{escape(chr(10).join(map(prediction.names.group, groups)))}[/bold]")
        for sentence in prediction.sentences(groups[0]):
            to.print(_indented(sentence, 2))
            said.append(sentence)
        if not place:
            for meaning in explain_terms(said, tables=layers):
                to.print(_indented(meaning, 4), style="dim")
        if layers:
            whole = prediction.table(groups[0])
            for table in [whole] if _fits(whole, to.width) else prediction.halves(groups[0]):
                print_table(to, table, "with --json")
    to.print(f"\n[bold]{escape(prediction.conclusion)}[/bold]")


def against(difference: Against) -> None:
    """Two runs side by side."""
    to = Terminal()
    to.print(f"[bold]{escape(tables.summarize_against(difference))}[/bold]\n")
    for table in (tables.tabulate_settings(difference), tables.tabulate_results(difference)):
        if table is not None:
            print_table(to, table)


def verification(verified: Verification) -> None:
    """The checks with their results, then what was found and what the ledger tells."""

    def echo(text: str, indent: str) -> None:
        wrapped = textwrap.fill(
            visible(text), 80, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
        typer.echo(wrapped)

    echo(verified.run, "")
    for check in verified.checks:
        summary = f"{len(check.findings)} found, see below" if check.findings else check.summary
        echo(f"  {check.result:<12}{check.name:<10} {summary}", " " * 25)
    for title, sentences in (("Does not check out", verified.findings), ("By its ledger", verified.remarks)):
        if sentences:
            typer.echo(f"\n{title}:")
            for sentence in sentences:
                echo(f"- {sentence}", "  ")
    last = ["Nothing was found." if verified.complete else "Nothing was found in what could be checked."] * verified.ok
    if verified.checks[-1].done:
        last.append(f"--seed {verified.seed} trains the same trials again.")
    typer.echo("\n" + "\n".join(last) if last else "")


def open_page(path: Path) -> None:
    """Open a page in the user's browser, if there is both."""
    if path.is_file():
        webbrowser.open(path.resolve().as_uri())


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
    widths = _least_widths(table, width)
    wanted = [max(map(cell_len, column)) for column in zip(table.header, *table.rows, strict=True)]
    while _with_frame(widths) < width and (narrow := [i for i, room in enumerate(widths) if room < wanted[i]]):
        widths[min(narrow, key=lambda i: widths[i])] += 1
    return widths


def _least_widths(table: Table, width: int) -> list[int]:
    """The longest word of each column. A number that is cut (4.5 × …) is wrong, so names are folded first."""
    widths = []
    for index, (name, *cells) in enumerate(zip(table.header, *table.rows, strict=True)):
        longest = max((cell_len(word) for cell in cells for word in cell.replace(" × ", "_×_").split()), default=1)
        header = max(map(cell_len, name.split()), default=1)
        widths.append(max(min(longest, width // 3 if index == 0 else LONGEST_WORD), min(header, LONGEST_HEADER)))
    return widths


def _fits(table: Table, width: int) -> bool:
    """Whether no cell has to be folded."""
    columns = zip(table.header, *table.rows, strict=True)
    return _with_frame(max(map(cell_len, (*name.split(), *cells))) for name, *cells in columns) <= width


def _with_frame(widths: Iterable[int]) -> int:
    """The width of a table with columns of these widths."""
    return 1 + sum(room + 3 for room in widths)


def audit_line(audited: Audit) -> None:
    """Answer 1 before the run begins, on stderr."""
    notes = Terminal(sys.stderr)
    notes.say(f"same set-up except the factor? {audited.answer}", soft_wrap=not notes.is_terminal)


def begins(planned: Plan, left: int) -> None:
    """One line before a study of several, on stderr."""
    study = planned.study
    to = Terminal(sys.stderr)
    planned_trials = len(planned.all_trials)
    trials = f"{left:,} of {planned_trials:,} trials" if left < planned_trials else f"{left:,} trials"
    to.print(f"[bold]{escape(study.name)}[/bold]: {escape(study.question)} ({trials})", soft_wrap=not to.is_terminal)


def scoreboard(board: Scoreboard, folder: Path) -> None:
    """Every claim of every write-up, every audit, every confound."""
    to = Terminal()
    for table in (*boards.tabulate_claims(board), boards.tabulate_audits(board), boards.tabulate_confounds(board)):
        print_table(to, table)
    to.print(f"[bold]{escape(boards.summarize(board))}[/bold]")
    Terminal(sys.stderr).say(f"scoreboard: {folder / 'scoreboard.md'}", soft_wrap=True)


def frames(tables: Sequence[tuple[str, Any]], closing: str) -> None:
    """Data frames as tables, without columns that are empty, and a closing line."""
    to = Terminal()
    for title, whole in tables:
        frame = whole.dropna(axis="columns", how="all") if len(whole) else whole
        rows = tuple(tuple(_format_cell(value) for value in row) for row in frame.itertuples(index=False))
        numbers = tuple(place for place, kind in enumerate(frame.dtypes) if kind.kind in "iuf")
        print_table(to, Table(title, tuple(map(str, frame.columns)), rows, numbers=numbers), "with --json")
    to.say(closing)


def _format_cell(value: Any) -> str:
    if isinstance(value, float):
        return "–" if math.isnan(value) else rounded(value)
    return "–" if value is None else str(value)
