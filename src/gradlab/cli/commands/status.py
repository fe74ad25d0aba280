"""`gradlab status`: show the state of a run, from any terminal, at any time."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

RANK = 12


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run folder, such as runs/identity.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Show the state of a run: done, running, failed and left trials, and whether it is running now.

    Works while the study runs and after a crash: finished trials are counted from the files; only a living process
    knows what is running.
    """
    from gradlab import api
    from gradlab.cli import show
    from gradlab.cli.output import emit_json

    found = api.status(run)
    if as_json:
        emit_json(found.to_json())
    else:
        show.status(found, sys.stdout)
