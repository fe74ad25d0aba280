"""`gradlab report`: rewrite the report of a run from its results, or compare two runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from gradlab.errors import InvalidInput

RANK = 14


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run folder, such as runs/identity.")],
    against: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Another run: show the differences in studies and results.")
    ] = None,
    form: Annotated[
        str | None, typer.Option("--format", metavar="html|md", help="Write only this format [default: both].")
    ] = None,
    pair: Annotated[
        tuple[str, str] | None, typer.Option(metavar="ARM ARM", help="The two arms of the micro-world.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The seed of the micro-world [default: the first].")] = None,
    trust: Annotated[
        bool,
        typer.Option("--trust", help="Run the code of the run's own parts: for their figures, --pair and --seed."),
    ] = False,
    tables: Annotated[bool, typer.Option("--tables", help="Print all tables of the report as well.")] = False,
    open_it: Annotated[bool, typer.Option("--open", help="Open the report in a browser.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Rewrite the report of a run, or compare two runs.

    Everything comes from the run folder, and nothing in it is executed without --trust; only with --pair or --seed two
    networks are trained again to be measured. report.html is a single self-contained file; report.md links to the
    figures beside it. A run in progress is reported with the trials finished so far. With --against, RUN is the first
    run and the other one the second: which settings differ, which trials have the same bits, and how the results
    differ, paired over seeds.
    """
    from gradlab import api
    from gradlab.cli import show
    from gradlab.cli.output import emit_json, visible
    from gradlab.cli.running import open_page
    from gradlab.comparing.live import RUN, is_live, save_live
    from gradlab.notices import say
    from gradlab.report.tables import against_json

    if is_live(run):
        save_live(run)
        run = run / RUN
    result = api.open_run(run, trust=trust)
    if against is not None or as_json:
        for note in result.notes:
            say(visible(note))
    if against is not None:
        other = api.open_run(against)
        for note in other.notes:
            say(visible(note))
        found = api.against(result, other)
        if as_json:
            emit_json(against_json(found))
        else:
            show.against(found)
        return
    if form not in (None, "html", "md"):
        raise InvalidInput(f"--format {form!r}: accepted: html, md")
    if pair is not None or seed is not None:
        result = api.look_again(result, pair, seed)
    if not os.access(run, os.W_OK):
        say(f"no permission to write to {run}: the report is shown, not written, and the look not recorded")
        if as_json:
            emit_json(result.to_json())
        else:
            show.result(result, run, tables=tables)
        return
    path = result.rewrite(("html", "md") if form is None else (form,))
    if open_it:
        open_page(path)
    if as_json:
        emit_json(result.to_json())
    else:
        show.result(result, path.parent, tables=tables)
