"""`gradlab verify`: does a run check out?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradlab.errors import InvalidInput

if TYPE_CHECKING:
    from gradlab.running.verify import Sample, Verification

RANK = 15
WIDTH = 80


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run's folder, like runs/identity.")],
    everything: Annotated[bool, typer.Option("--all", help="Train every trial again.")] = False,
    sample: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Train so many trials again [default: all that fit into 30 s, at least 3].", min=0
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(metavar="S", help="Decides which ones.", min=0)] = None,
    call: Annotated[
        str | None,
        typer.Option(metavar="MODULE:FUNCTION", help="The function that a comparison called, to call it again."),
    ] = None,
    trust: Annotated[bool, typer.Option("--trust", help="Run the code of parts that came with the run.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Check a run's ledger, files and results; retrain some trials.

    The ledger is an unbroken chain, every file holds what was written (the report and its figures too), every result
    that was ever committed is there and fits its digest, and trials that are trained again give the same bits. Exit
    codes: 0 nothing found, 1 something does not check out, or --all or --sample could not be done here. What was
    changed after results were known (claims, seeds, groups, labels) is listed, and is not an error.
    """
    from gradlab import api
    from gradlab.cli.loading import load_module, loaded
    from gradlab.cli.output import emit_json

    if everything and sample is not None:
        raise InvalidInput("--all trains every trial again; leave --sample out")
    wanted: Sample = None if everything else "time" if sample is None else sample
    function = None if call is None else loaded(call)
    arms = None if call is None else getattr(load_module(call), "ARMS", None)
    found = api.verify(run, sample=wanted, seed=seed, trust=trust, call=function, arms=arms)
    if as_json:
        emit_json(found.to_json())
    else:
        _show(found)
    asked = everything or bool(sample)
    if not found.ok or (asked and not found.checks[-1].done):
        raise typer.Exit(1)


def _show(found: Verification) -> None:
    """The checks with their results, then what was found and what the ledger tells."""
    typer.echo(_wrapped(found.run, ""))
    for check in found.checks:
        summary = f"{len(check.findings)} found, see below" if check.findings else check.summary
        typer.echo(_wrapped(f"  {check.result:<12}{check.name:<10} {summary}", " " * 25))
    for title, lines in (("Does not check out", found.findings), ("By its ledger", found.history.remarks)):
        if lines:
            typer.echo(f"\n{title}:")
            for line in lines:
                typer.echo(_wrapped(f"- {line}", "  "))
    last = ["Nothing was found." if found.complete else "Nothing was found in what could be checked."] * found.ok
    if found.checks[-1].done:
        last.append(f"--seed {found.seed} trains the same trials again.")
    typer.echo("\n" + "\n".join(last) if last else "")


def _wrapped(text: str, indent: str) -> str:
    from textwrap import fill

    from gradlab.cli.output import visible

    return fill(visible(text), WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
