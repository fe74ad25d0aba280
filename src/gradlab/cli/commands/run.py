"""`gradlab run`: plan, train, show, store."""

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
    seeds: Annotated[int | None, typer.Option(help="Number of seeds, instead of the study's own.", min=1)] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Change a value, such as train.lr=3e-4.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option("-j", "--workers", help="Trials at a time [default: all cores].", min=1)
    ] = None,
    executor: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Where trials run: pool (threads), processes, inline, ray or slurm [default: depends on the plan].",
        ),
    ] = None,
    address: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="The cluster of --executor ray, such as 10.0.0.1:6379.")
    ] = None,
    set_executor: Annotated[
        list[str] | None,
        typer.Option(
            "--set-executor", metavar="NAME=VALUE,…", help="Settings of the executor: partition=short,cpus=8."
        ),
    ] = None,
    track: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Show results live in tensorboard, mlflow or wandb (offline, in RUN/NAME)."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The run folder [default: runs/STUDY].")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Use the study's reduced budget, in a separate folder.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the plan, its cost and what is already done; run nothing.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Start over; the old run is moved aside, never overwritten.")
    ] = False,
    mixed: Annotated[
        bool,
        typer.Option(
            "--mixed",
            help="Accept other versions or machines: to resume a run, and of a cluster's workers; it is noted.",
        ),
    ] = False,
    fail_fast: Annotated[bool, typer.Option("--fail-fast", help="Stop at the first trial that fails.")] = False,
    live: Annotated[bool, typer.Option("--live", help="Show the loss of every trial in training.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Exit with 4 if a tested claim is not reproduced.")] = False,
    tables: Annotated[bool, typer.Option("--tables", help="Print all tables of the report as well.")] = False,
    open_it: Annotated[bool, typer.Option("--open", help="Open the report in a browser when it is written.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Run a study, or its remaining trials, and write its report.

    Trains every arm with shared randomness, measures every layer, and writes the resolved study, results, figures and a
    report to the run folder. Every finished trial is stored at once: run the same command after Ctrl-C, after a crash,
    or with more seeds, and it resumes.
    """
    from gradlab import studies
    from gradlab.cli.output import emit_json
    from gradlab.cli.running import RunOptions, executor_settings, run_study

    members = studies.collections()[study].studies if study in studies.collections() else (study,)
    if len(members) > 1 and out is not None:
        raise StudyError(f"--out: {study} is a collection of {len(members)} studies, each with its own folder")
    options = RunOptions(
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
        tables,
        open_it,
        executor_settings(executor, address, set_executor or ()),
        tuple(track or ()),
    )
    codes, found = [], []
    for member in members:
        code, report = run_study(member, options)
        codes.append(code)
        found.append(report)
        if code == INTERRUPTED:
            break
    if as_json:
        emit_json(found[0] if len(members) == 1 else {"collection": study, "studies": found})
    if any(codes):
        raise typer.Exit(max(codes))
