"""`gradlab predict`: what theory expects of a study, before anything is trained."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

RANK = 12
FORMATS = ("png", "pdf", "svg")
MOST_TABLES = 4
"""Groups whose layers are printed unasked."""


def command(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="A built-in name or a YAML file.")],
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Change a value, like model.depth=40.")
    ] = None,
    groups: Annotated[
        list[str] | None, typer.Option(metavar="GROUPS", help="Only these: a group's name, or depth=5|20.")
    ] = None,
    layers: Annotated[
        bool | None, typer.Option("--layers/--no-layers", help="Print every layer [default: if there are few groups].")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw signal and δ by layer: .png, .pdf or .svg.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Predict signal, δ and gradients by layer, before training.

    Mean-field theory with its correction for the width, from the configuration and the task's inputs; what it does not
    cover is simulated by drawing initial networks, and called that. Nothing is trained.

    gradlab predict identity --figure theory.png
    """
    from gradlab import api
    from gradlab.cli import show
    from gradlab.cli.output import emit_json, visible
    from gradlab.errors import InvalidInput
    from gradlab.notices import say

    if figure is not None and figure.suffix.removeprefix(".").lower() not in FORMATS:
        raise InvalidInput(f"--figure {str(figure)!r}: accepted: .{', .'.join(FORMATS)}")
    found = api.predict(study, overrides=overrides or (), groups=groups)
    if as_json:
        emit_json(found.to_json())
    else:
        show.predicted(found, sys.stdout, layers=len(found.groups) <= MOST_TABLES if layers is None else layers)
    if figure is not None:
        from gradlab.report.draw import render_chart
        from gradlab.runs.store.files import write_bytes

        write_bytes(figure, render_chart(found.chart(), figure.suffix.removeprefix(".").lower()))
        say(f"wrote {visible(str(figure))}")
