"""`gradlab run`: plan, train, show, keep."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

RANK = 10


def command(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="A built-in name or a YAML file.")],
    seeds: Annotated[int | None, typer.Option(help="How many seeds, instead of the study's own.", min=1)] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Change a value, like train.lr=3e-4.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option("-j", "--workers", help="Trials at a time [default: all cores].", min=1)
    ] = None,
    executor: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Where trials run: pool (threads), processes or inline [default: what suits the plan]."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder [default: runs/STUDY].")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="The study's reduced budget, in a folder of its own.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the plan, its cost and what is already done; run nothing.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Start afresh; the old run is moved aside, never written over.")
    ] = False,
    mixed: Annotated[
        bool, typer.Option("--mixed", help="Go on with a run that other versions or another machine began.")
    ] = False,
    fail_fast: Annotated[bool, typer.Option("--fail-fast", help="Stop at the first trial that fails.")] = False,
    live: Annotated[bool, typer.Option("--live", help="Show the loss of every trial in training.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Run a study, or what is left of it, and write its report.

    Trains every arm with shared randomness, looks inside every layer, and leaves the resolved study, results,
    figures and a Markdown report in the run's folder. Every finished trial is kept at once: the same command after
    Ctrl-C, a crash or with more seeds goes on where it stood.
    """
    from gradlab import lab
    from gradlab.cli import show
    from gradlab.cli.progress import Progress

    planned = lab.dry_run(study, overrides=overrides or [], seeds=seeds, quick=quick)
    name = planned.resolved.study.name + ("-quick" if quick else "")
    folder = out if out is not None else Path("runs") / name
    done = 0 if force else lab.finished(folder, planned)
    left = len({trial.id for trial in planned.trials}) - done
    if dry_run:
        if as_json:
            typer.echo(show.json_text(show.plan_json(planned, done)))
        else:
            show.plan(planned, sys.stdout, done)
        return
    if not as_json:
        show.plan(planned, sys.stderr, done)
    words = ["gradlab", "run", study, *(["--seeds", str(seeds)] if seeds else []), *(["--quick"] if quick else [])]
    words += [word for override in overrides or [] for word in ("--set", override)]
    with Progress(planned, live) as progress:
        result = lab.run(
            planned,
            out=folder,
            command=shlex.join(words),
            executor=executor or lab.suited_executor(planned, left, workers),
            workers=workers,
            fail_fast=fail_fast,
            force=force,
            mixed=mixed,
            on_start=progress.on_start,
            on_stop=progress.on_stop,
        )
    if as_json:
        typer.echo(show.json_text(result.to_json()))
    else:
        show.result(result, folder)
    if result.stopped and result.unfinished:
        raise typer.Exit(130)
    if result.measured.counts()["failed"]:
        raise typer.Exit(1)
