"""`gradlab compare`: compare the user's training code, per arm and seed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gradlab.errors import InvalidInput

RANK = 19


def command(
    target: Annotated[
        str, typer.Argument(metavar="MODULE:FUNCTION", help="A training function that returns names with numbers.")
    ],
    arm: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME: SETTINGS", help="An arm, such as 'deep: {depth: 30}' [default: ARMS of the module]."
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(help="Number of seeds.", min=1)] = 5,
    metric: Annotated[str | None, typer.Option(help="The metric that answers the question.")] = None,
    question: Annotated[str | None, typer.Option(help="The question of the comparison, for the report.")] = None,
    claims: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A YAML list of claims, as in a study file.")
    ] = None,
    audit: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:ARMS", help="Functions that build the arms; they are audited first, for the report."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The run folder [default: runs/FUNCTION].")] = None,
    force: Annotated[bool, typer.Option("--force", help="Start over; an old run is moved aside.")] = False,
    mixed: Annotated[
        bool, typer.Option("--mixed", help="Resume a run that was started under other versions or on another machine.")
    ] = False,
    fail_fast: Annotated[bool, typer.Option("--fail-fast", help="Stop at the first error of the function.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Exit with 4 if a claim is not reproduced.")] = False,
    tables: Annotated[bool, typer.Option("--tables", help="Print all tables of the report as well.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Compare your own training code: one call per arm and seed.

    FUNCTION is called with the settings of an arm as keywords, and `seed`; it returns names with numbers, curves (lists
    of numbers) or a gradlab.watch. Results are stored in the run folder as they arrive. The same command resumes a run,
    and calls nothing again unless the code or the settings change. Statistics, verdicts and report are those of a
    study. Exit codes: 1 a call failed, 3 the audit failed (the run continues, and is marked), 4 (with --check) a claim
    failed.
    """
    import shlex

    from gradlab import api
    from gradlab.cli import show
    from gradlab.cli.loading import load_module, loaded
    from gradlab.cli.output import emit_json
    from gradlab.cli.progress import Progress
    from gradlab.cli.running import exit_code
    from gradlab.comparing.planning import plan_comparison
    from gradlab.runs.store.status import count_finished
    from gradlab.spec.files import name_from

    train = loaded(target)
    arms = _parse_arms(arm) if arm else getattr(load_module(target), "ARMS", None)
    if not arms:
        raise InvalidInput(f"{target}: give the arms with --arm 'NAME: {{setting: value}}', or as ARMS in the module")
    name = name_from(target.rpartition(":")[2])
    settings: dict[str, Any] = {"name": name, "metric": metric, "question": question, "claims": _read_claims(claims)}
    plan = plan_comparison(train, arms, seeds, **settings)
    found = None if audit is None else api.audit_factories(loaded(audit))
    folder = out if out is not None else Path("runs") / name
    if not as_json:
        show.begins(plan, len(plan.trials) - (0 if force else count_finished(folder, plan.trials)))
        if found is not None:
            show.audit_line(found)
    options = {"--seeds": seeds, "--metric": metric, "--question": question, "--claims": claims, "--audit": audit}
    given = {**options, "--out": out}
    words = ["gradlab", "compare", target, *(word for text in arm or () for word in ("--arm", text))]
    words += [str(word) for option, value in given.items() if value is not None for word in (option, value)]
    with Progress(plan) as progress:
        result = api.compare(
            train,
            arms,
            seeds,
            **settings,
            audit=found,
            out=folder,
            force=force,
            mixed=mixed,
            fail_fast=fail_fast,
            command=shlex.join(words),
            on_start=progress.on_start,
            on_stop=progress.on_stop,
        )
    if as_json:
        emit_json(result.to_json())
    else:
        show.result(result, folder, tables=tables)
    if code := exit_code(result, check):
        raise typer.Exit(code)


def _parse_arms(texts: list[str]) -> dict[str, Any]:
    """Parse `plain: {skip: false}` or, for an arm passed by its name, just `plain`."""
    from gradlab.spec import yaml_text

    found: dict[str, Any] = {}
    for text in texts:
        value = yaml_text.parse(text, "--arm")
        own = {value: value} if isinstance(value, str) and not set(value) & set("{}[]:") else value
        if not isinstance(own, dict) or len(own) != 1:
            raise InvalidInput(f"--arm {text!r}: write it as 'NAME: {{setting: value}}'")
        ((name, settings),) = own.items()
        if name in found:
            raise InvalidInput(f"--arm {text!r}: there are two arms {name!r}")
        found[str(name)] = {} if settings is None else settings
    return found


def _read_claims(path: Path | None) -> list[Any]:
    from gradlab.spec import yaml_text

    if path is None:
        return []
    try:
        found = yaml_text.parse(path.read_text(encoding="utf8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"--claims {path}: {getattr(error, 'strerror', None) or error}") from None
    if not isinstance(found, list):
        raise InvalidInput(f"--claims {path}: give a list of claims, each with a text, a metric and an op")
    return found
