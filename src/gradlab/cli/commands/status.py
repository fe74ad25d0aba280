"""`gradlab status`: where a run stands, from any terminal, at any time."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

RANK = 12


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run's folder, like runs/identity.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Say where a run stands: done, running, failed, left, alive or not.

    Works while the study runs and after any death: what is done is counted from the files, what is running only a
    living process can say.
    """
    from gradlab import api
    from gradlab.cli import show
    from gradlab.cli.output import emit_json

    found = api.status(run)
    if as_json:
        emit_json(found.to_json())
    else:
        show.status(found, sys.stdout)
