"""`gradlab export`: export a run's numbers for other tools."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

RANK = 17


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run folder, such as runs/identity.")],
    to: Annotated[
        str, typer.Option(metavar="FORMAT", help="csv, parquet, json or latex; or tensorboard, mlflow, wandb.")
    ],
    table: Annotated[
        str,
        typer.Option(metavar="NAME", help="summary (mean and interval per group), trials, curves, layers or tuning."),
    ] = "summary",
    out: Annotated[
        Path | None,
        typer.Option(help="The file to write [default: stdout], or the tracker's folder [default: RUN/NAME]."),
    ] = None,
) -> None:
    """Export a table of a run, or the whole run to a tracker.

    Tables as csv, parquet, json, or LaTeX with intervals.

    In every format NaN, infinity and missing stay distinct. The files in RUN/results are plain Parquet: pandas,
    polars and DuckDB read them without an export. For a tracker every trial, the mean of every group, the verdicts and
    the report are written to a folder on this disk; doing it again writes only what is new, and nothing is sent.
    RUN may also be the folder of a watch on the disk (`gradlab.watch(…, out=RUN)`), finished, running or killed.
    """
    from contextlib import nullcontext

    from gradlab import api
    from gradlab.cli.output import visible
    from gradlab.comparing.live import is_live, opened_live
    from gradlab.errors import InvalidInput
    from gradlab.notices import say
    from gradlab.parts import BUILT_IN
    from gradlab.report.export import check_export
    from gradlab.runs.store.files import writing

    tracked = to in BUILT_IN.names("tracker")
    if tracked and table != "summary":
        raise InvalidInput(f"--table {table}: a tracker gets the whole run; leave --table out")
    if not tracked:
        check_export(to, table, BUILT_IN.names("tracker"))
    if not tracked and out is None and to == "parquet" and sys.stdout.isatty():
        raise InvalidInput("--to parquet writes bytes, not text; give a file with --out")
    with opened_live(run) if is_live(run) else nullcontext(run) as place:
        if tracked:
            written = api.export(place, to, out or run / to)
            say(visible(written.sentence))
            say(visible(f"to view it: {written.hint}"))
            return
        result = api.open_run(place)
        for note in result.notes:
            say(visible(note))
        if out is not None:
            with writing(out) as file:
                result.write_export(file, to, table)
        else:
            result.write_export(sys.stdout.buffer, to, table)
            sys.stdout.buffer.flush()
