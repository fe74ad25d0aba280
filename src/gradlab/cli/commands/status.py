"""`gradlab status`: show the state of a run, or of all runs below a folder, from any terminal, at any time."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

RANK = 12


def command(
    run: Annotated[
        Path | None, typer.Argument(metavar="[RUN]", help="The run folder, such as runs/identity [default: all].")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Show the state of a run, or of all runs below this folder.

    Trials that are done, running, failed and left, and whether it is running now.

    Without RUN, all runs below the current folder are listed, one line each. Works while the study runs and after a
    crash: finished trials are counted from the files; only a living process knows what is running. Of a watch with
    `out=RUN` it shows the latest step that was probed: its loss, and what was found.
    """
    from gradlab import api
    from gradlab.cli import show
    from gradlab.cli.output import emit_json
    from gradlab.comparing.live import is_live, read_live

    if run is None:
        found = api.list_runs()
        if as_json:
            emit_json({"runs": [each.to_json() for each in found]})
        else:
            show.runs(found, sys.stdout)
        return
    if is_live(run):
        live = read_live(run)
        if as_json:
            emit_json(live.to_json())
        else:
            show.live(live, sys.stdout)
        return
    status = api.status(run)
    if as_json:
        emit_json(status.to_json())
    else:
        show.status(status, sys.stdout)
