"""`gradlab run`: plan, train, show, keep."""

from __future__ import annotations

import json
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
    out: Annotated[Path | None, typer.Option(help="The run's folder [default: runs/STUDY].")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="The study's reduced budget, in a folder of its own.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and its cost; run nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Run a study and write its report.

    Trains every arm with shared randomness, looks inside every layer, and leaves the resolved study, tables,
    figures and a Markdown report in the run's folder.
    """
    from gradlab import lab
    from gradlab.cli import show

    planned = lab.dry_run(study, overrides=overrides or [], seeds=seeds, quick=quick)
    if dry_run:
        if as_json:
            typer.echo(json.dumps(show.plan_json(planned), indent=2))
        else:
            show.plan(planned, sys.stdout)
        return
    if not as_json:
        show.plan(planned, sys.stderr)
    name = planned.resolved.study.name + ("-quick" if quick else "")
    folder = out if out is not None else Path("runs") / name
    words = ["gradlab", "run", study, *(["--seeds", str(seeds)] if seeds else []), *(["--quick"] if quick else [])]
    words += [word for override in overrides or [] for word in ("--set", override)]
    show.announce_compilation(planned)
    with show.Progress(planned) as progress:
        result = lab.run(
            planned,
            out=folder,
            command=shlex.join(words),
            workers=workers,
            tick=progress.tick,
            on_result=progress.on_result,
        )
    if as_json:
        typer.echo(show.json_text(result.to_json()))
    else:
        show.result(result, folder)
    if result.interrupted:
        raise typer.Exit(130)
    if result.measured.counts()["failed"]:
        raise typer.Exit(1)
