"""What the command line shows: the plan, progress, the result. Colour only on a terminal, never with NO_COLOR."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Table as RichTable

from gradlab.execute.base import TrialResult
from gradlab.lab import Result
from gradlab.plan.cost import measure_speed
from gradlab.plan.plan import Plan
from gradlab.report.tables import Table, failures, groups_table, layers_table, published_table
from gradlab.spec.canonical import plain_json
from gradlab.spec.paths import label
from gradlab.trial.trial import Trial

WIDE = 200
"""Columns of a table that goes to a file or a pipe."""


def json_text(value: Any) -> str:
    """JSON with non-finite numbers as "nan", "inf", "-inf"."""
    return json.dumps(plain_json(value), indent=2, ensure_ascii=False)


def plan(planned: Plan, stream: TextIO) -> None:
    """The trials and what they will cost."""
    console = _console(stream)
    study = planned.resolved.study
    console.print(f"[bold]{escape(study.question)}[/bold]")
    seeds = len(study.trial_seeds)
    console.print(
        f"{len(planned.groups)} groups × {seeds} seeds = {len(planned.trials):,} trials, "
        f"{planned.flops / 1e9:,.3g} GFLOP, {planned.bytes / 2**20:,.0f} MiB each, "
        f"about {_time(planned.seconds())} on one core" + (" (reduced budget)" if planned.resolved.quick else "")
    )
    for group in planned.groups if stream is sys.stdout else ():
        settings = ", ".join(f"{path}={label(value)}" for path, value in group.group.settings.items())
        cost = group.cost
        console.print(
            escape(
                f"  {group.group.name}: {settings or 'the base'}; {cost.parameters:,} parameters, {cost.steps:,} steps"
            )
        )
    for text in dict.fromkeys(group.stated for group in planned.groups if group.stated):
        console.print(escape(f"  data: {text}"))
    for text in dict.fromkeys(f"{group.engine} engine, {group.reason}" for group in planned.groups if group.reason):
        console.print(escape(f"  {text}"))


def plan_json(planned: Plan) -> dict[str, Any]:
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
                "seconds": speed.seconds(group.cost, group.engine),
                "data": group.stated or None,
                "engine": group.engine,
            }
            for group in planned.groups
        ],
        "trials": [{"id": trial.id, "group": trial.group, "seed": trial.seed} for trial in planned.trials],
        "flops": planned.flops,
        "bytes": planned.bytes,
        "seconds": planned.seconds(speed),
    }


def announce_compilation(planned: Plan) -> None:
    """Say so where the kernels have to be compiled first."""
    if any(group.engine == "fused" for group in planned.groups):
        from gradlab.engines.kernels.compiled import is_cold

        if is_cold():
            _console(sys.stderr).print("compiling the kernels of the fused engine, once: about 10 s")


class Progress:
    """A bar over all steps of all trials, on a terminal only."""

    def __init__(self, planned: Plan) -> None:
        self._steps = {group.group.name: max(group.cost.steps, 1) for group in planned.groups}
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=not sys.stderr.isatty(),
            transient=True,
        )
        total = sum(self._steps[trial.group] for trial in planned.trials)
        self._task = self._bar.add_task("training", total=total)
        self._trials = len(planned.trials)
        self._finished = 0
        self._running: dict[str, int] = {}
        self._done = 0

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._bar.stop()

    def tick(self, trial: Trial, done: int) -> None:
        """So many steps of a trial are done."""
        self._running[trial.id] = done
        completed = self._done + sum(list(self._running.values()))
        self._bar.update(self._task, completed=completed, description=escape(trial.name))

    def on_result(self, result: TrialResult) -> None:
        """A trial is finished."""
        self._running.pop(result.trial.id, None)
        self._done += self._steps[result.trial.group]
        self._finished += 1
        self._bar.update(self._task, completed=self._done, description=f"{self._finished} of {self._trials} trials")


def result(found: Result, folder: Path) -> None:
    """Answer and tables on stdout; where the report lies on stderr."""
    console = _console(sys.stdout)
    measured = found.measured
    console.print(f"[bold]{escape(found.answer)}[/bold]\n", highlight=False)
    for table in (groups_table(measured), published_table(measured), layers_table(measured)):
        if table is not None:
            console.print(_rich(table))
            for note in table.notes:
                console.print(escape(f"  {note}"))
    for line in failures(measured):
        console.print(escape(f"failed: {line}"))
    notes = _console(sys.stderr)
    if found.interrupted:
        notes.print("interrupted; finished trials are kept")
    notes.print(escape(f"report: {folder / 'report.md'}   figures: {folder / 'figures'}"), soft_wrap=True)


def _rich(table: Table) -> RichTable:
    rich = RichTable(title=table.title, title_justify="left", title_style="bold", header_style="bold")
    for index, name in enumerate(table.header):
        rich.add_column(escape(name), justify="left" if index == 0 else "right")
    for row in table.rows:
        rich.add_row(*map(escape, row))
    return rich


def _console(stream: TextIO) -> Console:
    return Console(file=stream, highlight=False, width=None if stream.isatty() else WIDE)


def _time(seconds: float) -> str:
    if seconds < 1:
        return "a second"
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
