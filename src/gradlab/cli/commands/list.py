"""`gradlab list`: list the built-in studies and parts."""

from __future__ import annotations

from typing import Annotated

import typer

RANK = 20


def command(
    parts: Annotated[bool, typer.Option("--parts", help="Also list the parts that studies can name.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")] = False,
) -> None:
    """List the built-in studies and parts."""
    from gradlab import api, studies
    from gradlab.cli.output import emit_json
    from gradlab.parts import BUILT_IN, FOLDERS

    questions = {name: api.load(name).study.question for name in api.list_studies()}
    summaries = {kind: {name: BUILT_IN.get(kind, name).summary() for name in BUILT_IN.names(kind)} for kind in FOLDERS}
    collections = {name: each.question for name, each in studies.collections().items()}
    if as_json:
        emit_json({"studies": questions, "collections": collections, **({"parts": summaries} if parts else {})})
        return
    width = max(map(len, questions))
    for name, question in questions.items():
        typer.echo(f"{name:<{width}}  {question}")
    for name, question in collections.items():
        typer.echo(f"{name:<{width}}  {question} ({', '.join(studies.collections()[name].studies)})")
    for kind, found in summaries.items() if parts else ():
        typer.echo(f"\n{kind}")
        for name, summary in found.items():
            typer.echo(f"  {name:<26} {summary}")
