"""`gradlab figure`: draw one figure of a run, as it is needed: for a paper, a slide, a page."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

RANK = 15
FORMATS = ("png", "pdf", "svg", "csv")


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run folder, such as runs/identity.")],
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="The figure; without it, the figures of the run are listed.")
    ] = None,
    groups: Annotated[
        list[str] | None,
        typer.Option(metavar="GROUPS", help="Show only these: a group's name, or depth=5|20, init=he_normal."),
    ] = None,
    facet: Annotated[str | None, typer.Option(metavar="SETTING", help="One panel for each of its values.")] = None,
    color: Annotated[str | None, typer.Option(metavar="SETTING", help="One hue for each of its values.")] = None,
    label: Annotated[
        list[str] | None, typer.Option(metavar="LEVEL=TEXT", help="Rename a level or an arm: skip=none=plain.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="A title of your own; empty: none.")] = None,
    size: Annotated[str, typer.Option(metavar="SIZE", help="page, column (of a paper) or slide.")] = "page",
    to: Annotated[
        str | None, typer.Option(metavar="FORMAT", help="png, pdf, svg, or csv: the numbers [default: png].")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The file to write [default: NAME.FORMAT; - is stdout].")] = None,
    trust: Annotated[bool, typer.Option("--trust", help="Run the code of the run's own figures.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="List the figures as one JSON object.")] = False,
) -> None:
    """Draw one figure of a run, or list its figures.

    Gradients by layer at three depths, with and without the skip, on a slide:

    gradlab figure runs/depth gradient_at_start_by_layer --facet depth --color skip --size slide --to pdf
    """
    from gradlab import api
    from gradlab.cli.output import emit_json, hang, visible
    from gradlab.notices import say
    from gradlab.report.draw import render_chart
    from gradlab.report.export import render_csv
    from gradlab.report.pictures import FigureRequest
    from gradlab.runs.store.files import write_bytes

    kind = _format(to, out)
    renamed = dict(_rename(text) for text in label or ())
    result = api.open_run(run, trust=trust)
    for note in result.notes:
        say(visible(note))
    if name is None:
        found = result.figure_names()
        if as_json:
            emit_json(found)
            return
        widest = max(map(len, found), default=0)
        for each, words in found.items():
            typer.echo(hang(f"{each:<{widest}}  ", visible(words)))
        return
    chart = result.chart(name, FigureRequest(groups or None, facet, color, renamed, title))
    content = render_csv(*chart.table()) if kind == "csv" else render_chart(chart, kind, size=size)
    if out is not None and str(out) == "-":
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    path = out or Path(f"{name}.{kind}")
    write_bytes(path, content)
    say(visible(chart.caption))
    typer.echo(path)


def _format(to: str | None, out: Path | None) -> str:
    """The format that is asked for, or that the name of the file has."""
    from gradlab.errors import InvalidInput, nearest

    named = out.suffix.removeprefix(".").lower() if out is not None else ""
    kind = to or (named if named in FORMATS else "png")
    if kind not in FORMATS:
        raise InvalidInput(f"--to {kind!r}: accepted: {', '.join(FORMATS)}{nearest(kind, FORMATS)}")
    return kind


def _rename(text: str) -> tuple[str, str]:
    from gradlab.errors import InvalidInput

    level, equals, name = text.rpartition("=")
    if not equals or not level or not name:
        raise InvalidInput(f"--label {text!r}: write level=text, such as skip=none=plain, or arm=text")
    return level, name
