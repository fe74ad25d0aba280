"""Training on the terminal: what is left to do, progress, Ctrl-C, the exit code; what --dry-run expects."""

from __future__ import annotations

import errno
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from gradlab import api
from gradlab.analysis.settling import Round
from gradlab.analysis.tuning import settle
from gradlab.cli import show
from gradlab.cli.output import drop_stdout, duration, say_all
from gradlab.cli.states import running_lines
from gradlab.cli.terminal import escape
from gradlab.errors import INTERRUPTED, InvalidInput
from gradlab.notices import say
from gradlab.plans.cost import measure_speed
from gradlab.plans.plan import Plan
from gradlab.report.result import Result
from gradlab.runs.coordinator import Tally
from gradlab.runs.executors.base import WORKER_BYTES, Executor, default_executor, forecast, named_executor
from gradlab.runs.store.folder import committed
from gradlab.runs.store.status import count_finished
from gradlab.trackers.exporting import named_tracker
from gradlab.words import counted, percent, rounded

WIDE = 100
"""Columns of a terminal from which on the progress bar may be long."""
LIMITS = {"coordinator": "limited by the coordinator", "start-up": "mostly start-up", "cores": "limited by cores"}


class Work(NamedTuple):
    """What is to be done in a folder: the plan, trials that are done and left, and the executor that takes them."""

    plan: Plan
    done: int
    left: int
    executor: Executor


def find_work(
    plan: Plan,
    folder: Path,
    executor: str | None,
    *,
    workers: int | None = None,
    settings: Mapping[str, str] | None = None,
    force: bool = False,
    mixed: bool = False,
) -> Work:
    """Find out what of a plan a folder holds already; `force` starts over."""
    plan = plan if force else settle_tuning(plan, folder)
    done = 0 if force else count_finished(folder, plan.all_trials)
    left = len({trial.id for trial in plan.all_trials}) - done
    name = executor or default_executor(plan, left, workers)
    return Work(plan, done, left, named_executor(name, plan, workers, settings or {}, mixed=mixed))


def settle_tuning(plan: Plan, folder: Path) -> Plan:
    """The plan at the values that the tuning in a folder has chosen; as it is where there is no finished tuning."""
    if plan.tuning is None or count_finished(folder, plan.tuning.plan.trials) == 0:
        return plan
    return settle(plan, committed(Path(folder))[0])


def read_executor_settings(executor: str | None, address: str | None, pairs: Sequence[str]) -> dict[str, str]:
    """Return the executor's settings as they were typed: NAME=VALUE pairs, separated by commas."""
    settings: dict[str, str] = {} if address is None else {"address": address}
    for text in (text for group in pairs for text in group.split(",") if text.strip()):
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise InvalidInput(f"--set-executor {text!r}: write NAME=VALUE, such as cpus=8")
        settings[name.strip().replace("-", "_")] = value.strip()
    if settings and executor is None:
        raise InvalidInput(f"{'--address' if address else '--set-executor'} needs --executor, such as --executor ray")
    return settings


def expect(work: Work) -> dict[str, Any]:
    """Estimate how an executor runs what is left; nothing is started and no cluster is reached."""
    plan, executor = work.plan, work.executor
    cores = executor.width(max(work.left, 1))
    seconds = plan.seconds(measure_speed()) / (len(plan.trials) or 1)
    shared = os.cpu_count() or 1 if executor.shares_machine() else None
    model = forecast(work.left, seconds, cores, executor.costs, executor.bundle_seconds, shared)
    worker_bytes = plan.bytes + (WORKER_BYTES if executor.isolated else 0)
    per_machine = min(executor.cores_per_machine(), cores)
    return {
        "executor": executor.name,
        "cores": cores,
        "bundles": model.bundles,
        "trials_per_bundle": model.trials_per_bundle,
        "bytes_per_worker": worker_bytes,
        "workers_per_machine": per_machine,
        "bytes_per_machine": worker_bytes * per_machine,
        "expected_seconds": model.seconds,
        "efficiency": model.efficiency,
        "coordinator_share": model.coordinator,
        "limit": model.limit,
    }


def describe_expectation(expected: Mapping[str, Any]) -> list[str]:
    """Four lines for people."""
    cores, per_machine = expected["cores"], expected["workers_per_machine"]
    bundles = f"{counted(expected['bundles'], 'bundle')} of up to {counted(expected['trials_per_bundle'], 'trial')}"
    worker, machine = (f"{expected[f'bytes_per_{what}'] / 2**20:,.0f} MiB" for what in ("worker", "machine"))
    time = f"{duration(expected['expected_seconds'])}, {LIMITS[expected['limit']]}"
    return [
        f"{expected['executor']}: {bundles}, {cores:,} at a time",
        f"memory: {worker} per worker, {machine} on a machine with {counted(per_machine, 'worker')}",
        f"expected time on {counted(cores, 'core')}: {time}",
        f"(a model: cores train {percent(expected['efficiency'])} of the time, "
        f"the coordinator is busy {percent(expected['coordinator_share'])} of it)",
    ]


def train(work: Work, folder: Path, *, live: bool, quiet: bool, **options: Any) -> Result:
    """Call `api.run` with progress on stderr; `live`: of every trial in training; `quiet`: no sentences."""
    with Progress(work.plan, live) as progress, _announce_finished(folder, work.plan):
        return api.run(
            work.plan,
            out=folder,
            executor=work.executor.name,
            on_audit=None if quiet else show.audit_line,
            on_start=progress.on_start,
            on_round=None if quiet else progress.on_round,
            on_stop=progress.on_stop,
            on_report=None if quiet else progress.on_report,
            **options,
        )


def run_with_progress(plan: Plan, *, out: Path, workers: int | None, **options: Any) -> Result:
    """Call `api.run` with the question of the study and its progress on stderr, for one study of several."""
    work = find_work(plan, out, None, workers=workers)
    show.begins(work.plan, work.left)
    with Progress(work.plan) as progress:
        options |= {"on_start": progress.on_start, "on_stop": progress.on_stop}
        return api.run(work.plan, out=out, workers=workers, executor=work.executor.name, **options)


@contextmanager
def _announce_finished(folder: Path, plan: Plan) -> Iterator[None]:
    """Handle Ctrl-C while the report is written: say that all trials are on disk."""
    try:
        yield
    except KeyboardInterrupt:
        now = settle_tuning(plan, folder)
        if count_finished(folder, now.all_trials) < len({trial.id for trial in now.all_trials}):
            raise
        command = f"gradlab report {shlex.quote(str(folder))}"
        say(f"interrupted; all trials are done and stored; write the report with `{command}`")
        raise typer.Exit(INTERRUPTED) from None


def print_result(result: Result, folder: Path, trackers: Sequence[str], *, tables: bool) -> None:
    """Print the result on stdout, and how to view it in trackers; a closed pipe or terminal is ignored."""
    try:
        show.result(result, folder, tables=tables)
        sys.stdout.flush()
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.EIO):
            raise
        drop_stdout()
    for name in dict.fromkeys(trackers):
        view = named_tracker(name, result.measured.plan.catalog).view(folder / name)
        say_all([f"to view it in {name}: {view}"])


def exit_code(result: Result, check: bool) -> int:
    """Return 130 if interrupted, 1 if a trial failed, 3 if the audit failed, 4 (--check) if a claim failed."""
    if result.stopped and result.unfinished:
        return INTERRUPTED
    tuning = result.story.tuning
    if result.measured.counts()["failed"] or (tuning is not None and tuning.failed):
        return 1
    if result.audit is not None and not result.audit.passed:
        return 3
    return 4 if check and any(verdict.failed for verdict in result.verdicts) else 0


class Progress:
    """The progress of a run, drawn on a terminal only; with `live`, one line for every trial in training."""

    def __init__(self, planned: Plan, live: bool = False) -> None:
        self._planned = planned
        self._show_trials = live
        self._console = Console(stderr=True, highlight=False)
        self._tally: Tally | None = None
        self._given_up: set[int] = set()
        self._live = Live(
            console=self._console,
            get_renderable=self._render,
            refresh_per_second=5,
            transient=True,
            redirect_stdout=False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with suppress(OSError, ValueError):  # the terminal may be gone
            self._live.stop()

    def on_start(self, tally: Tally) -> None:
        """Start the display."""
        announced, self._tally = self._tally is not None, tally
        for text in self._planned.announcements if tally.todo and not announced else ():
            self._say(text)
        if tally.phase is not None and (tally.todo or not announced):
            done = tally.planned - tally.todo
            self._say(f"{tally.phase}: {tally.todo:,} trials" + (f", {done:,} already done" if done else ""))
        if tally.todo and sys.stderr.isatty():
            self._live.start()

    def on_round(self, following: Round) -> None:
        """Say once of each claim that more seeds would not settle it, and at the end how it came out."""
        for claim in following.given_up:
            if claim.number not in self._given_up:
                self._given_up.add(claim.number)
                self._say(f"claim {claim.number} (“{claim.verdict.claim.text}”) is given up: {claim.expected}")
        if not following.seeds:
            self._say(following.words)

    def on_stop(self) -> None:
        """Announce the stop after the first Ctrl-C."""
        self._say("stopping: finished trials are kept and the report is written; press Ctrl-C again to stop at once")

    def on_report(self) -> None:
        """Announce the report, which takes some seconds; the bar has done its work."""
        with suppress(OSError, ValueError):
            self._live.stop()
        self._say("writing the report…")

    def _say(self, text: str) -> None:
        with suppress(OSError, ValueError):  # the terminal may be gone, which must not end the run
            self._console.print(text, soft_wrap=True)

    def _render(self) -> RenderableType:
        if self._tally is None:
            return ""
        progress = self._tally.snapshot()
        grid = Table.grid(padding=(0, 1))
        width = 32 if self._console.width >= WIDE else 12
        grid.add_row(ProgressBar(total=1.0, completed=self._tally.share, width=width), escape(headline(progress)))
        if not self._show_trials:
            return grid
        return Group(grid, *(escape(f"  {line}") for line in running_lines(progress["running"])))


def headline(progress: Any) -> str:
    """Return `tuning: 12 of 40 trials, 2 running, 1 diverged, 3.2 per second, 0:12 left`."""
    phase = f"{progress['phase']}: " if progress.get("phase") else ""
    words = [f"{phase}{progress['done'] + progress['failed']:,} of {progress['planned']:,} trials"]
    for key, count in (
        ("running", len(progress["running"])),
        ("diverged", progress["diverged"]),
        ("failed", progress["failed"]),
    ):
        words += [f"{count:,} {key}"] if count else []
    if rate := progress["per_second"]:
        words.append(f"{rounded(rate, 2)} per second" if rate >= 1 else f"{duration(1 / rate)} each")
    if progress["seconds_left"] is not None:
        minutes, seconds = divmod(round(progress["seconds_left"]), 60)
        hours, minutes = divmod(minutes, 60)
        words.append(f"{hours}:{minutes:02d}:{seconds:02d} left" if hours else f"{minutes}:{seconds:02d} left")
    return ", ".join(words)
