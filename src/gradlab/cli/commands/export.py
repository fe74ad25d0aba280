"""`gradlab export`: export a run's numbers for other tools."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

RANK = 17


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run folder, such as runs/identity.")],
    to: Annotated[str, typer.Option(metavar="FORMAT", help="csv, parquet, json or latex.")],
    table: Annotated[
        str,
        typer.Option(metavar="NAME", help="summary (mean and interval per group), trials, curves, layers or tuning."),
    ] = "summary",
    out: Annotated[Path | None, typer.Option(help="The file to write [default: stdout].")] = None,
) -> None:
    """Export a table of a run: csv, parquet, json, or LaTeX (booktabs) with intervals.

    In every format NaN, infinity and missing stay distinct. The files in RUN/results are plain Parquet: pandas,
    polars and DuckDB read them without an export.
    """
    from gradlab import api
    from gradlab.cli.output import visible
    from gradlab.errors import InvalidInput
    from gradlab.notices import say
    from gradlab.report.export import check_export
    from gradlab.runs.store.atomic import write_bytes

    check_export(to, table)
    if out is None and to == "parquet" and sys.stdout.isatty():
        raise InvalidInput("--to parquet writes bytes, not text; give a file with --out")
    result = api.open_run(run)
    for note in result.notes:
        say(visible(note))
    content = result.export(to, table)
    if out is not None:
        write_bytes(out, content)
    else:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
