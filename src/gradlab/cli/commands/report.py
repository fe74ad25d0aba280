"""`gradlab report`: the report of a run, made again from its results, or two runs beside each other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

RANK = 14


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run's folder, like runs/identity.")],
    against: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Another run: show what differs in studies and results.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Make the report of a run again, or compare two runs.

    Nothing is trained and no data are read: everything comes from the run's folder. A run in progress is reported as
    far as it is. With --against, RUN is the first and the other run the second: which settings differ, which trials
    have the same bits, and how the results differ, paired over seeds.
    """
    from gradlab import lab
    from gradlab.cli import show
    from gradlab.report import against as beside

    result = lab.open_run(run)
    if against is not None:
        found = lab.against(result, lab.open_run(against))
        if as_json:
            typer.echo(show.json_text(beside.to_json(found)))
        else:
            show.against(found)
        return
    path = result.rewrite()
    if as_json:
        typer.echo(show.json_text(result.to_json()))
    else:
        show.result(result, path.parent)
