"""`gradlab reproduce`: reproduce the four write-ups, claim by claim."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from gradlab.errors import INTERRUPTED

RANK = 16
UNFAIR = 3


def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Write-ups: depth, scaling, identity, gradflow [default: all]."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Use reduced budgets (some minutes in total).")] = False,
    workers: Annotated[
        int | None, typer.Option("-j", "--workers", help="Trials at a time [default: all cores].", min=1)
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder for runs and scoreboard.")] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Reproduce the four write-ups: audit, run, judge every claim.

    Runs every study of a write-up, as published and controlled, and prints one scoreboard: claim, published number,
    measured interval, verdict, reason, and what cannot be attributed. Finished trials are not run again. With --quick,
    claims that need the full budget show the verdict of the full run that ships with the package.
    """
    from gradlab.api import reproduce
    from gradlab.cli import show
    from gradlab.cli.output import emit_json
    from gradlab.cli.running import run_with_progress

    board = reproduce(
        tuple(names or ()), quick=quick, out=out, workers=workers, run_study=None if as_json else run_with_progress
    )
    if as_json:
        emit_json(board.to_json())
    else:
        show.scoreboard(board, out / ("reproduce-quick" if quick else "reproduce"), sys.stdout)
    if board.stopped:
        raise typer.Exit(INTERRUPTED)
    if board.failed:
        raise typer.Exit(1)
    if not all(entry.as_expected for entry in board.entries):
        raise typer.Exit(UNFAIR)
