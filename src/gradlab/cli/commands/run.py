"""`gradlab run`: plan, train, show, keep."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gradlab.errors import INTERRUPTED, StudyError

RANK = 10


def command(
    study: Annotated[
        str, typer.Argument(metavar="STUDY", help="A built-in name (of a study or a collection) or a YAML file.")
    ],
    seeds: Annotated[int | None, typer.Option(help="How many seeds, instead of the study's own.", min=1)] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Change a value, like train.lr=3e-4.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option("-j", "--workers", help="Trials at a time [default: all cores].", min=1)
    ] = None,
    executor: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Where trials run: pool (threads), processes or inline [default: what suits the plan]."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder [default: runs/STUDY].")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="The study's reduced budget, in a folder of its own.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the plan, its cost and what is already done; run nothing.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Start afresh; the old run is moved aside, never written over.")
    ] = False,
    mixed: Annotated[
        bool, typer.Option("--mixed", help="Go on with a run that other versions or another machine began.")
    ] = False,
    fail_fast: Annotated[bool, typer.Option("--fail-fast", help="Stop at the first trial that fails.")] = False,
    live: Annotated[bool, typer.Option("--live", help="Show the loss of every trial in training.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Exit with 4 if a claim that was tested is not reproduced.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Run a study, or what is left of it, and write its report.

    Trains every arm with shared randomness, looks inside every layer, and leaves the resolved study, results,
    figures and a Markdown report in the run's folder. Every finished trial is kept at once: the same command after
    Ctrl-C, a crash or with more seeds goes on where it stood.
    """
    from gradlab import studies
    from gradlab.cli.output import emit_json
    from gradlab.cli.running import Wish, run_study

    members = studies.collections()[study].studies if study in studies.collections() else (study,)
    if len(members) > 1 and out is not None:
        raise StudyError(f"--out: {study} is a collection of {len(members)} studies, each with a folder of its own")
    wish = Wish(
        seeds,
        tuple(overrides or ()),
        workers,
        executor,
        out,
        quick,
        dry_run,
        force,
        mixed,
        fail_fast,
        live,
        check,
        as_json,
    )
    codes, found = [], []
    for member in members:
        code, report = run_study(member, wish)
        codes.append(code)
        found.append(report)
        if code == INTERRUPTED:
            break
    if as_json:
        emit_json(found[0] if len(members) == 1 else {"collection": study, "studies": found})
    if any(codes):
        raise typer.Exit(max(codes))
