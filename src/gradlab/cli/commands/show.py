"""`gradlab show`: print a study as YAML, ready to copy and change."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

RANK = 30


def command(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="A built-in name or a YAML file.")],
    resolved: Annotated[bool, typer.Option("--resolved", help="Show every group with all defaults.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")] = False,
) -> None:
    """Show a study as YAML, ready to copy and change.

    Prints the file as written, or (--resolved) every group with every field.
    """
    from gradlab import api, studies
    from gradlab.cli.output import emit_json, visible
    from gradlab.spec.yaml_text import dump

    loaded = api.load(study)
    if resolved:
        groups = {group.name: group.config.model_dump(mode="json") for group in loaded.groups}
        emit_json(groups) if as_json else typer.echo(visible(dump(groups)), nl=False)
    elif as_json:
        emit_json(loaded.study.model_dump(mode="json", exclude_unset=True))
    else:
        text = studies.locate(study).read_text(encoding="utf8")
        typer.echo(visible(text) if sys.stdout.isatty() else text, nl=False)
