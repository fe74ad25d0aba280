"""`gradlab list`: list the built-in studies and parts."""

from __future__ import annotations

from typing import Annotated

import typer

RANK = 20


def command(
    parts: Annotated[bool, typer.Option("--parts", help="Also list the parts that studies can name.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")] = False,
) -> None:
    """List the built-in studies, with question and run time."""
    from gradlab import api, studies
    from gradlab.cli.output import emit_json, hang
    from gradlab.parts import BUILT_IN, HOMES

    questions = {name: api.load(name).study.question for name in api.list_studies()}
    summaries = {kind: {name: BUILT_IN.get(kind, name).summary() for name in BUILT_IN.names(kind)} for kind in HOMES}
    collections = {name: each.question for name, each in studies.collections().items()}
    times = studies.run_times()
    if as_json:
        emit_json(
            {
                "studies": questions,
                "collections": collections,
                "seconds": times,
                **({"parts": summaries} if parts else {}),
            }
        )
        return
    width = max(map(len, (*questions, *collections)))
    for topic, names in studies.topics().items():
        typer.echo(f"\n{topic}")
        for name in names:
            typer.echo(hang(f"  {name:<{width}}  {_time(times.get(name)):>6}  ", questions[name]))
    typer.echo("\nSeveral studies under one name")
    for name, question in collections.items():
        total = sum(times.get(member, 0.0) for member in studies.collections()[name].studies)
        typer.echo(hang(f"  {name:<{width}}  {_time(total or None):>6}  ", question))
    typer.echo("\nTimes are estimates for one core; --quick takes seconds to a minute.")
    for kind, found in summaries.items() if parts else ():
        typer.echo(f"\n{kind}")
        for name, summary in found.items():
            typer.echo(hang(f"  {name:<26} ", summary))


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    return f"{max(seconds, 1):.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
