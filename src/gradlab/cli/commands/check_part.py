"""`gradlab check-part`: the contract tests of a user's parts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

RANK = 50


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A Python file that defines parts. It is run.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")] = False,
) -> None:
    """Check your own parts.

    Runs the contract tests of each part's kind: gradients against finite differences, shapes, purity, names.
    """
    from gradlab.cli.output import emit_json, visible
    from gradlab.testing import check_file

    reports = check_file(file)
    if as_json:
        rows = [
            {"kind": r.kind, "name": r.name, "check": c.what, "problem": c.problem} for r in reports for c in r.checks
        ]
        emit_json(rows)
    for report in reports if not as_json else ():
        typer.echo(f"{report.kind} {report.name}")
        for check in report.checks:
            problem = f": {check.problem}" if check.problem else ""
            typer.echo(visible(f"  {'ok  ' if check.problem is None else 'FAIL'} {check.what}{problem}"))
    if any(check.problem for report in reports for check in report.checks):
        raise typer.Exit(1)
