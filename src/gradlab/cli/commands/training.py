"""Commands that train: `run` a study, `reproduce` write-ups, `compare` training code of the user's own."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from gradlab.cli.commands import (
    AUDIT_FAILED,
    AsJson,
    Budget,
    Matters,
    MostSeeds,
    ProjectPath,
    Tables,
    Until,
    Workers,
    read_seconds,
    read_until,
)
from gradlab.cli.commands.scripts import (
    AA,
    ClaimTexts,
    ExecutorName,
    Factor,
    From,
    Higher,
    Jobs,
    Lower,
    MetricOption,
    Options,
    SetExecutor,
    Take,
    Timeout,
    To,
    Trace,
    compare_command,
)
from gradlab.errors import INTERRUPTED, InvalidInput, StudyError


def run(
    study: Annotated[
        str, Argument(metavar="STUDY", help="A built-in name (of a study or a collection) or a YAML file.")
    ],
    seeds: Annotated[int | None, Option(help="Number of seeds, instead of the study's own.", min=1)] = None,
    until: Until = None,
    most_seeds: MostSeeds = 200,
    budget: Budget = None,
    matters: Matters = None,
    overrides: Annotated[
        list[str] | None, Option("--set", metavar="PATH=VALUE", help="Change a value, such as train.lr=3e-4.")
    ] = None,
    workers: Workers = None,
    executor: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="Where trials run: pool (threads), processes, inline, ray or slurm [default: depends on the plan].",
        ),
    ] = None,
    address: Annotated[
        str | None, Option(metavar="ADDRESS", help="The cluster of --executor ray, such as 10.0.0.1:6379.")
    ] = None,
    set_executor: Annotated[
        list[str] | None,
        Option("--set-executor", metavar="NAME=VALUE,…", help="Settings of the executor: partition=short,cpus=8."),
    ] = None,
    track: Annotated[
        list[str] | None,
        Option(metavar="NAME", help="Show results live in tensorboard, mlflow or wandb (offline, in RUN/NAME)."),
    ] = None,
    out: Annotated[Path | None, Option(help="The run folder [default: runs/STUDY].")] = None,
    project: ProjectPath = None,
    quick: Annotated[bool, Option("--quick", help="Use the study's reduced budget, in a separate folder.")] = False,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Show the plan, its cost and what is already done; run nothing.")
    ] = False,
    force: Annotated[
        bool, Option("--force", help="Start over; the old run is moved aside, never overwritten.")
    ] = False,
    mixed: Annotated[
        bool,
        Option(
            "--mixed",
            help="Accept other versions or machines: to resume a run, and of a cluster's workers; it is noted.",
        ),
    ] = False,
    fail_fast: Annotated[bool, Option("--fail-fast", help="Stop at the first trial that fails.")] = False,
    live: Annotated[bool, Option("--live", help="Show the loss of every trial in training.")] = False,
    check: Annotated[bool, Option("--check", help="Exit with 4 if a tested claim is not reproduced.")] = False,
    tables: Tables = False,
    open_it: Annotated[bool, Option("--open", help="Open the report in a browser when it is written.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a study, or its remaining trials, and write its report.

    Trains every arm with shared randomness, measures every layer, and writes the resolved study, results, figures and a
    report to the run folder. Every finished trial is stored at once: run the same command after Ctrl-C, after a crash,
    or with more seeds, and it resumes.
    """
    from gradlab import api, studies
    from gradlab.cli import running, show
    from gradlab.cli.output import emit_json
    from gradlab.cli.terminal import Terminal

    collections = studies.collections()
    members = collections[study].studies if study in collections else (study,)
    if len(members) > 1 and out is not None:
        raise StudyError(f"--out: {study} is a collection of {len(members)} studies, each with its own folder")
    settings = running.read_executor_settings(executor, address, set_executor or ())
    options: dict[str, Any] = {"workers": workers, "settings": settings, "force": force, "mixed": mixed}
    seconds, wanted = read_seconds("--budget", budget), read_until(until, most_seeds, seeds)
    overrides = [*(overrides or ()), *([] if matters is None else [f"matters={matters}"])]
    codes: list[int] = []
    reports: list[dict[str, Any]] = []
    for member in members:
        plan = api.plan(member, overrides=tuple(overrides), seeds=wanted, quick=quick)
        folder = out or Path("runs") / (plan.study.name + ("-quick" if quick else ""))
        work = running.find_work(plan, folder, executor, **options)
        if not as_json:
            show.plan(work.plan, sys.stdout if dry_run else sys.stderr, work.done)
        if dry_run:
            expected = running.expect(work)
            if as_json:
                reports.append({**show.plan_json(work.plan, work.done), "expected": expected})
            else:
                Terminal().say(*running.describe_expectation(expected))
            continue
        words = ["gradlab", "run", member, *(["--seeds", str(seeds)] if seeds else []), *["--quick"] * quick]
        words += ["--until", "settled", "--most-seeds", str(most_seeds)] if until else []
        words += [word for override in overrides for word in ("--set", override)]
        result = running.train(
            work,
            folder,
            live=live,
            quiet=as_json,
            command=shlex.join(words),
            track=tuple(track or ()),
            fail_fast=fail_fast,
            budget=seconds,
            project=project,
            **options,
        )
        if as_json:
            reports.append(result.to_json())
        else:
            running.print_result(result, folder, track or (), tables=tables)
        if open_it:
            show.open_page(folder / "report.html")
        codes.append(running.exit_code(result, check))
        if codes[-1] == INTERRUPTED:
            break
    if as_json:
        emit_json(reports[0] if len(members) == 1 else {"collection": study, "studies": reports})
    if any(codes):
        raise typer.Exit(max(codes))


def reproduce(
    names: Annotated[
        list[str] | None,
        Argument(metavar="[NAME]...", help="Write-ups: depth, scaling, identity, gradflow [default: all]."),
    ] = None,
    quick: Annotated[bool, Option("--quick", help="Use reduced budgets (some minutes in total).")] = False,
    until: Until = None,
    budget: Annotated[
        str | None,
        Option(metavar="TIME", help="With --until: after 90s, 20min or 2h of a study, begin no round of seeds."),
    ] = None,
    workers: Workers = None,
    out: Annotated[Path, Option(help="The folder for runs and scoreboard.")] = Path("runs"),
    as_json: AsJson = False,
) -> None:
    """Reproduce the four write-ups: audit, run, judge every claim.

    Runs every study of a write-up, as published and controlled, and prints one scoreboard: claim, published number,
    measured interval, verdict, reason, and what cannot be attributed. Finished trials are not run again. With --quick,
    claims that need the full budget show the verdict of the full run that ships with the package. With --until settled,
    studies get seeds until their claims are settled, up to a number that was chosen for each before its results.
    `gradlab reproduce gallery` runs public experiments that everybody knows instead; --quick shows them in a minute.
    """
    from gradlab import api
    from gradlab.cli import show
    from gradlab.cli.output import answer
    from gradlab.cli.running import run_with_progress

    run_study = None if as_json else run_with_progress
    board = api.reproduce(
        tuple(names or ()),
        quick=quick,
        until_settled=read_until(until, 1, None) is not None,
        budget=read_seconds("--budget", budget),
        out=out,
        workers=workers,
        run_study=run_study,
    )
    folder = out / ("reproduce-quick" if quick else "reproduce")
    answer(board, lambda shown: show.scoreboard(shown, folder), as_json)
    if board.stopped:
        raise typer.Exit(INTERRUPTED)
    if board.failed:
        raise typer.Exit(1)
    if not all(entry.as_expected for entry in board.entries):
        raise typer.Exit(AUDIT_FAILED)


def compare(
    words: Annotated[
        list[str],
        Argument(
            metavar="MODULE:FUNCTION | -- COMMAND...",
            help="A training function that returns names with numbers; or a command, after --, with {seed} in it.",
        ),
    ],
    arm: Annotated[
        list[str] | None,
        Option(
            metavar="NAME: SETTINGS",
            help="An arm: 'deep: {depth: 30}', of a command also 'deep: --depth 30' [default: ARMS of the module].",
        ),
    ] = None,
    seeds: Annotated[int, Option(help="Number of seeds.", min=1)] = 5,
    until: Until = None,
    most_seeds: MostSeeds = 200,
    metric: MetricOption = None,
    take: Take = "last",
    source: From = None,
    lower: Lower = False,
    higher: Higher = False,
    claim: ClaimTexts = None,
    matters: Matters = None,
    factor: Factor = None,
    aa: AA = 3,
    jobs: Jobs = 1,
    timeout: Timeout = None,
    budget: Budget = None,
    trace: Trace = None,
    executor: ExecutorName = "pool",
    set_executor: SetExecutor = None,
    to: To = None,
    question: Annotated[str | None, Option(help="The question of the comparison, for the report.")] = None,
    claims: Annotated[Path | None, Option(metavar="FILE", help="A YAML list of claims, as in a study file.")] = None,
    audit: Annotated[
        str | None,
        Option(metavar="MODULE:ARMS", help="Functions that build the arms; they are audited first, for the report."),
    ] = None,
    out: Annotated[Path | None, Option(help="The run folder [default: runs/FUNCTION].")] = None,
    project: ProjectPath = None,
    force: Annotated[bool, Option("--force", help="Start over; an old run is moved aside.")] = False,
    mixed: Annotated[
        bool, Option("--mixed", help="Resume a run that was started under other versions or on another machine.")
    ] = False,
    fail_fast: Annotated[bool, Option("--fail-fast", help="Stop at the first error of the function.")] = False,
    check: Annotated[bool, Option("--check", help="Exit with 4 if a claim is not reproduced.")] = False,
    tables: Tables = False,
    as_json: AsJson = False,
) -> None:
    """Compare your own training code: a function or a command.

    FUNCTION is called with the settings of an arm as keywords, and `seed`; it returns names with numbers, curves (lists
    of numbers) or a gradlab.watch. Results are stored in the run folder as they arrive. The same command resumes a run,
    and calls nothing again unless the code or the settings change. Statistics, verdicts and report are those of a
    study. A COMMAND is run as a process instead; its number is read from what it prints or writes, and of a Python
    command the first optimizer steps are looked at. Exit codes: 1 a call failed, 3 the audit failed (the run continues,
    and is marked), 4 (with --check) a claim failed.
    """
    from gradlab import api
    from gradlab.cli import show
    from gradlab.cli.loading import load_module, loaded
    from gradlab.cli.output import answer
    from gradlab.cli.running import Progress, exit_code
    from gradlab.comparing.planning import plan_comparison
    from gradlab.runs.store.status import count_finished
    from gradlab.spec.files import name_from

    target = words[0]
    if len(words) > 1 or (Path(target).is_file() and not target.endswith(".py")):
        compare_command(words, arm, question, Options.of(locals()))
        return
    Options.of(locals()).refuse_for_function()
    train = loaded(target)
    arms = parse_arms(arm) if arm else getattr(load_module(target), "ARMS", None)
    if not arms:
        raise InvalidInput(f"{target}: give the arms with --arm 'NAME: {{setting: value}}', or as ARMS in the module")
    name = name_from(target.rpartition(":")[2])
    settings: dict[str, Any] = {"name": name, "metric": metric, "question": question, "claims": read_claims(claims)}
    settings |= {} if matters is None else {"matters": matters}
    wanted = read_until(until, most_seeds, seeds)
    plan = plan_comparison(train, arms, wanted, **settings)
    audited = None if audit is None else api.audit_factories(loaded(audit))
    folder = out or Path("runs") / name
    if not as_json:
        show.begins(plan, len(plan.trials) - (0 if force else count_finished(folder, plan.trials)))
        if audited is not None:
            show.audit_line(audited)
    options = {"--seeds": seeds, "--metric": metric, "--question": question, "--claims": claims, "--audit": audit}
    typed = ["gradlab", "compare", target, *(word for text in arm or () for word in ("--arm", text))]
    for option, value in {**options, "--out": out}.items():
        typed += [] if value is None else [option, str(value)]
    typed += ["--until", "settled", "--most-seeds", str(most_seeds)] if until else []
    with Progress(plan) as progress:
        result = api.compare(
            train,
            arms,
            wanted,
            **settings,
            audit=audited,
            out=folder,
            force=force,
            mixed=mixed,
            fail_fast=fail_fast,
            command=shlex.join(typed),
            budget=read_seconds("--budget", budget),
            project=project,
            on_start=progress.on_start,
            on_round=None if as_json else progress.on_round,
            on_stop=progress.on_stop,
        )
    answer(result, lambda shown: show.result(shown, folder, tables=tables), as_json)
    if code := exit_code(result, check):
        raise typer.Exit(code)


def parse_arms(texts: list[str]) -> dict[str, Any]:
    """Parse `plain: {skip: false}` or, for an arm passed by its name, just `plain`."""
    from gradlab.spec import yaml_text

    arms: dict[str, Any] = {}
    for text in texts:
        value = yaml_text.parse(text, "--arm")
        pair = {value: value} if isinstance(value, str) and not set(value) & set("{}[]:") else value
        if not isinstance(pair, dict) or len(pair) != 1:
            raise InvalidInput(f"--arm {text!r}: write it as 'NAME: {{setting: value}}'")
        ((name, settings),) = pair.items()
        if name in arms:
            raise InvalidInput(f"--arm {text!r}: there are two arms {name!r}")
        arms[str(name)] = {} if settings is None else settings
    return arms


def read_claims(path: Path | None) -> list[Any]:
    """The claims of a YAML file."""
    from gradlab.spec import yaml_text

    if path is None:
        return []
    try:
        claims = yaml_text.parse(path.read_text(encoding="utf8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"--claims {path}: {getattr(error, 'strerror', None) or error}") from None
    if not isinstance(claims, list):
        raise InvalidInput(f"--claims {path}: give a list of claims, each with a text, a metric and an op")
    return claims
