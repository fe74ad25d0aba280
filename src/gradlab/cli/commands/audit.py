"""`gradlab audit`: is a comparison fair, and what can it not attribute?"""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer

RANK = 11
UNFAIR = 3


def command(
    study: Annotated[
        str, typer.Argument(metavar="STUDY", help="A built-in name, a YAML file, or MODULE:ARMS for code of your own.")
    ],
    seeds: Annotated[int | None, typer.Option(help="How many seeds, instead of the study's own.", min=1)] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Change a value, like train.lr=3e-4.")
    ] = None,
    suggest: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the factorial study that separates the causes, ready to run."),
    ] = None,
    factor: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="For MODULE:ARMS: what the arms are meant to differ in, comma-separated, like optimizer,lr.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, with hashes.")] = False,
) -> None:
    """Ask whether a comparison is fair, before anything is trained.

    Compares what will actually be trained, for every pair of arms at every seed: initial tensors bit by bit, data,
    split, batch order, every learning rate, updates, samples, loss, normalization, precision, FLOPs. Two answers: is
    the set-up the same except for the declared factor (no: exit code 3), and what can the design not attribute even so.
    Flaws that all arms share are named too: test rows that are trained on, tiny test sets, arms or claims that say the
    contrary of their settings (exit code 3).

    MODULE:ARMS names a dict of functions in a Python file or module, each of which returns (model, optimizer, loader,
    loss) in PyTorch. They are called under the same seed, and what they build and compute is compared: initial values,
    forward passes on the same weights, losses on the same outputs, updates on the same gradients, all samples.
    """
    from gradlab import api
    from gradlab.cli import show
    from gradlab.cli.loading import is_target, loaded
    from gradlab.cli.output import emit_json
    from gradlab.errors import StoreError, StudyError
    from gradlab.spec.yaml_text import dump

    if is_target(study):
        if overrides or seeds is not None or suggest is not None:
            raise StudyError("--set, --seeds and --suggest belong to studies; the functions decide that themselves")
        with redirect_stdout(sys.stderr):  # what the module prints is not the answer
            arms = _made(study, loaded(study))
        found = api.audit_factories(arms, factor=factor)
    else:
        if factor is not None:
            raise StudyError("--factor is for MODULE:ARMS; a study declares its factor in its file (`factor:`)")
        found = api.audit(study, overrides=tuple(overrides or ()), seeds=seeds)
    if suggest is not None:
        if found.suggestion is None:
            raise StudyError(f"--suggest: the audit of {study} found no cause that another study could separate")
        try:
            suggest.write_text(dump(found.suggestion), encoding="utf8")
        except OSError as error:
            raise StoreError(f"{suggest}: {error.strerror or error}") from None
        typer.echo(f"written: {suggest}; run it with gradlab run {suggest}", err=True)
    if as_json:
        emit_json(found.to_json())
    else:
        show.audit(found, sys.stdout)
    if not found.passed:
        raise typer.Exit(UNFAIR)


def _made(target: str, arms: Any) -> Any:
    """A dict of functions, or what a function makes of it."""
    from gradlab.errors import InvalidInput, described

    if not callable(arms):
        return arms
    try:
        return arms()
    except (Exception, SystemExit) as error:
        raise InvalidInput(f"{target}: {described(error)}; name a dict of functions") from error
