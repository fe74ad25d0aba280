"""What `gradlab run --dry-run` says about an executor: bundles, memory, and the time that the model expects."""

from __future__ import annotations

import errno
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer

from gradlab import api
from gradlab.analysis.tuning import settle
from gradlab.cli import show
from gradlab.cli.output import drop_stdout, duration, visible
from gradlab.cli.progress import Progress
from gradlab.errors import INTERRUPTED, InvalidInput
from gradlab.notices import say
from gradlab.plans.cost import measure_speed
from gradlab.plans.plan import Plan
from gradlab.report.result import Result
from gradlab.runs.executors.base import WORKER_BYTES, Executor, Forecast, default_executor, forecast, named_executor
from gradlab.runs.store.folder import committed
from gradlab.runs.store.status import count_finished
from gradlab.trackers.exporting import named_tracker

LIMITS = {"coordinator": "limited by the coordinator", "start-up": "mostly start-up", "cores": "limited by cores"}


@dataclass(frozen=True)
class Expectation:
    """The run of a plan's remaining trials by an executor."""

    executor: str
    cores: int
    per_machine: int
    worker_bytes: int
    model: Forecast

    @property
    def machine_bytes(self) -> int:
        """Memory of one machine's workers."""
        return self.worker_bytes * self.per_machine

    def lines(self) -> list[str]:
        """Four lines for people."""
        model = self.model
        many = f"{_count(model.bundles, 'bundle')} of up to {_count(model.trials_per_bundle, 'trial')}"
        worker, machine = (f"{size / 2**20:,.0f} MiB" for size in (self.worker_bytes, self.machine_bytes))
        return [
            f"{self.executor}: {many}, {self.cores:,} at a time",
            f"memory: {worker} per worker, {machine} on a machine with {_count(self.per_machine, 'worker')}",
            f"expected time on {_count(self.cores, 'core')}: {duration(model.seconds)}, {LIMITS[model.limit]}",
            f"(a model: cores train {100 * model.efficiency:.0f} % of the time, "
            f"the coordinator is busy {100 * model.coordinator:.0f} % of it)",
        ]

    def to_json(self) -> dict[str, Any]:
        """All numbers."""
        model = self.model
        return {
            "executor": self.executor,
            "cores": self.cores,
            "bundles": model.bundles,
            "trials_per_bundle": model.trials_per_bundle,
            "bytes_per_worker": self.worker_bytes,
            "workers_per_machine": self.per_machine,
            "bytes_per_machine": self.machine_bytes,
            "expected_seconds": model.seconds,
            "efficiency": model.efficiency,
            "coordinator_share": model.coordinator,
            "limit": model.limit,
        }


def expect(plan: Plan, executor: Executor, trials: int) -> Expectation:
    """Estimate the run of `trials` trials of a plan; nothing is started and no cluster is reached."""
    cores = executor.width(max(trials, 1))
    total = len(plan.trials) or 1
    each = plan.seconds(measure_speed()) / total
    worker = plan.bytes + (WORKER_BYTES if executor.isolated else 0)
    shared = os.cpu_count() or 1 if executor.shares_machine() else None
    model = forecast(trials, each, cores, executor.costs, executor.bundle_seconds, shared)
    return Expectation(executor.name, cores, min(executor.cores_per_machine(), cores), worker, model)


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'s' if number != 1 else ''}"


# Run one study on the command line: plan, train, show, store.


@dataclass(frozen=True)
class RunOptions:
    """The options of `gradlab run`."""

    seeds: int | None
    overrides: tuple[str, ...]
    workers: int | None
    executor: str | None
    out: Path | None
    quick: bool
    dry_run: bool
    force: bool
    mixed: bool
    fail_fast: bool
    live: bool
    check: bool
    as_json: bool
    tables: bool = False
    open_it: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    """Of the executor."""
    track: tuple[str, ...] = ()


def executor_settings(executor: str | None, address: str | None, pairs: Sequence[str]) -> dict[str, str]:
    """Return the executor's settings as they were typed: NAME=VALUE pairs, separated by commas."""
    found: dict[str, str] = {} if address is None else {"address": address}
    for text in (text for group in pairs for text in group.split(",") if text.strip()):
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise InvalidInput(f"--set-executor {text!r}: write NAME=VALUE, such as cpus=8")
        found[name.strip().replace("-", "_")] = value.strip()
    if found and executor is None:
        raise InvalidInput(f"{'--address' if address else '--set-executor'} needs --executor, such as --executor ray")
    return found


def run_study(study: str, options: RunOptions) -> tuple[int, dict[str, Any]]:
    """Run or only plan a study; return its exit code and, with --json, its object."""
    planned = api.plan(study, overrides=options.overrides, seeds=options.seeds, quick=options.quick)
    name = planned.resolved.study.name + ("-quick" if options.quick else "")
    folder = options.out if options.out is not None else Path("runs") / name
    planned = planned if options.force else with_choice_made(planned, folder)
    done = 0 if options.force else count_finished(folder, planned.all_trials)
    left = len({trial.id for trial in planned.all_trials}) - done
    executor = options.executor or default_executor(planned, left, options.workers)
    chosen = named_executor(executor, planned, options.workers, options.settings, mixed=options.mixed)
    if not options.as_json:
        show.plan(planned, sys.stdout if options.dry_run else sys.stderr, done)
    if options.dry_run:
        expected = expect(planned, chosen, left)
        if options.as_json:
            return 0, {**show.plan_json(planned, done), "expected": expected.to_json()}
        show.lines(expected.lines(), sys.stdout)
        return 0, {}
    with Progress(planned, options.live) as progress, _announce_finished(folder, planned):
        result = api.run(
            planned,
            out=folder,
            command=shlex.join(_command_words(study, options)),
            executor=executor,
            settings=options.settings,
            track=options.track,
            workers=options.workers,
            fail_fast=options.fail_fast,
            force=options.force,
            mixed=options.mixed,
            on_audit=None if options.as_json else show.audit_line,
            on_start=progress.on_start,
            on_stop=progress.on_stop,
            on_report=None if options.as_json else progress.on_report,
        )
    if not options.as_json:
        _print_result(result, folder, options.tables)
        for name in dict.fromkeys(options.track):
            say(visible(f"to view it in {name}: {named_tracker(name, planned.catalog).view(folder / name)}"))
    if options.open_it:
        open_page(folder / "report.html")
    return exit_code(result, options.check), result.to_json() if options.as_json else {}


@contextmanager
def _announce_finished(folder: Path, planned: Plan) -> Iterator[None]:
    """Handle Ctrl-C while the report is written: say that all trials are on disk."""
    try:
        yield
    except KeyboardInterrupt:
        now = with_choice_made(planned, folder)
        if count_finished(folder, now.all_trials) < len({trial.id for trial in now.all_trials}):
            raise
        command = f"gradlab report {shlex.quote(str(folder))}"
        say(f"interrupted; all trials are done and stored; write the report with `{command}`")
        raise typer.Exit(INTERRUPTED) from None


def _print_result(result: Result, folder: Path, tables: bool) -> None:
    """Print the result on stdout; a closed pipe or terminal is ignored."""
    try:
        show.result(result, folder, tables=tables)
        sys.stdout.flush()
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.EIO):
            raise
        drop_stdout()


def open_page(path: Path) -> None:
    """Open a page in the user's browser, if there is both."""
    import webbrowser

    if path.is_file():
        webbrowser.open(path.resolve().as_uri())


def with_choice_made(planned: Plan, folder: Path) -> Plan:
    """The plan at the values that the tuning in a folder has chosen; as it is where there is no finished tuning."""
    if planned.tuning is None or count_finished(folder, planned.tuning.plan.trials) == 0:
        return planned
    return settle(planned, committed(Path(folder))[0])


def run_with_progress(planned: Plan, **options: Any) -> Result:
    """Call `api.run` with its question and progress on stderr."""
    planned = with_choice_made(planned, options["out"])
    left = len({trial.id for trial in planned.all_trials}) - count_finished(options["out"], planned.all_trials)
    show.begins(planned, left)
    with Progress(planned) as progress:
        executor = default_executor(planned, left, options.get("workers"))
        return api.run(planned, executor=executor, on_start=progress.on_start, on_stop=progress.on_stop, **options)


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


def _command_words(study: str, options: RunOptions) -> list[str]:
    """Return the command that makes the same results again."""
    words = ["gradlab", "run", study]
    words += ["--seeds", str(options.seeds)] if options.seeds else []
    words += ["--quick"] if options.quick else []
    return words + [word for override in options.overrides for word in ("--set", override)]
