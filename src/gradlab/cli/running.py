"""One study on the command line: plan, train, show, keep."""

from __future__ import annotations

import errno
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from gradlab import api
from gradlab.cli import show
from gradlab.cli.output import drop_stdout
from gradlab.cli.progress import Progress
from gradlab.errors import INTERRUPTED
from gradlab.notices import say
from gradlab.plans.plan import Plan
from gradlab.report.result import Result
from gradlab.runs.bundles import default_executor
from gradlab.runs.store.status import count_finished


@dataclass(frozen=True)
class Wish:
    """What the options of `gradlab run` say."""

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


def run_study(study: str, wish: Wish) -> tuple[int, dict[str, Any]]:
    """Exit code of a study that was run, or only planned, and with --json its object."""
    planned = api.plan(study, overrides=wish.overrides, seeds=wish.seeds, quick=wish.quick)
    name = planned.resolved.study.name + ("-quick" if wish.quick else "")
    folder = wish.out if wish.out is not None else Path("runs") / name
    done = 0 if wish.force else count_finished(folder, planned.trials)
    left = len({trial.id for trial in planned.trials}) - done
    if not wish.as_json:
        show.plan(planned, sys.stdout if wish.dry_run else sys.stderr, done)
    if wish.dry_run:
        return 0, show.plan_json(planned, done) if wish.as_json else {}
    with Progress(planned, wish.live) as progress, _kept_so_far(folder, planned):
        result = api.run(
            planned,
            out=folder,
            command=shlex.join(_words(study, wish)),
            executor=wish.executor or default_executor(planned, left, wish.workers),
            workers=wish.workers,
            fail_fast=wish.fail_fast,
            force=wish.force,
            mixed=wish.mixed,
            on_audit=None if wish.as_json else show.audit_line,
            on_start=progress.on_start,
            on_stop=progress.on_stop,
        )
    if not wish.as_json:
        _tell(result, folder)
    return exit_code(result, wish.check), result.to_json() if wish.as_json else {}


@contextmanager
def _kept_so_far(folder: Path, planned: Plan) -> Iterator[None]:
    """Ctrl-C while the report is made: everything that took time is on the disk, and the user has to know."""
    try:
        yield
    except KeyboardInterrupt:
        if count_finished(folder, planned.trials) < len({trial.id for trial in planned.trials}):
            raise
        say(f"interrupted; all trials are done and kept: `gradlab report {shlex.quote(str(folder))}` makes the report")
        raise typer.Exit(INTERRUPTED) from None


def _tell(result: Result, folder: Path) -> None:
    """The result on stdout; a reader or a terminal that is gone changes nothing about it."""
    try:
        show.result(result, folder)
        sys.stdout.flush()
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.EIO):
            raise
        drop_stdout()


def watched_run(planned: Plan, **options: Any) -> Result:
    """`api.run` with its question and progress on stderr."""
    left = len({trial.id for trial in planned.trials}) - count_finished(options["out"], planned.trials)
    show.begins(planned, left)
    with Progress(planned) as progress:
        executor = default_executor(planned, left, options.get("workers"))
        return api.run(planned, executor=executor, on_start=progress.on_start, on_stop=progress.on_stop, **options)


def exit_code(result: Result, check: bool) -> int:
    """130 interrupted, 1 a trial failed, 3 the comparison is not fair, 4 (with --check) a claim is not reproduced."""
    if result.stopped and result.unfinished:
        return INTERRUPTED
    if result.measured.counts()["failed"]:
        return 1
    if result.audit is not None and not result.audit.fair:
        return 3
    return 4 if check and any(verdict.failed for verdict in result.verdicts) else 0


def _words(study: str, wish: Wish) -> list[str]:
    """The command that makes the same results again."""
    words = ["gradlab", "run", study]
    words += ["--seeds", str(wish.seeds)] if wish.seeds else []
    words += ["--quick"] if wish.quick else []
    return words + [word for override in wish.overrides for word in ("--set", override)]
