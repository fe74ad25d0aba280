"""Commands about studies, before anything is trained: `list`, `show`, `schema`, `audit`, `predict`."""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from gradlab.cli.commands import AUDIT_FAILED, AsJson, PlainJson, StudyName
from gradlab.errors import InvalidInput, StoreError, StudyError, described, with_article

FORMATS = ("png", "pdf", "svg")
MOST_TABLES = 4
"""Groups whose layers `predict` prints unasked."""


def list_(
    parts: Annotated[bool, Option("--parts", help="Also list the parts that studies can name.")] = False,
    as_json: PlainJson = False,
) -> None:
    """List the built-in studies, with question and run time."""
    from gradlab import studies
    from gradlab.cli.output import duration, emit_json, hang
    from gradlab.parts import BUILT_IN, HOMES

    questions = {name: studies.question(name) for name in studies.names()}
    kinds = HOMES if parts else ()
    summaries = {kind: {name: BUILT_IN.get(kind, name).summary() for name in BUILT_IN.names(kind)} for kind in kinds}
    collections = studies.collections()
    seconds = studies.run_times()
    if as_json:
        tree = {
            "studies": questions,
            "collections": {name: collection.question for name, collection in collections.items()},
            "seconds": seconds,
        }
        emit_json({**tree, "parts": summaries} if parts else tree)
        return
    width = max(map(len, (*questions, *collections)))

    def print_line(name: str, time: float | None, question: str) -> None:
        about = "–" if time is None else duration(max(time, 1))
        typer.echo(hang(f"  {name:<{width}}  {about:>6}  ", question))

    for topic, names in studies.topics().items():
        typer.echo(f"\n{topic}")
        for name in names:
            print_line(name, seconds.get(name), questions[name])
    typer.echo("\nSeveral studies under one name")
    for name, collection in collections.items():
        total = sum(seconds.get(member, 0.0) for member in collection.studies)
        print_line(name, total or None, collection.question)
    typer.echo("\nTimes are estimates for one core; --quick takes seconds to a minute.")
    for kind, descriptions in summaries.items():
        typer.echo(f"\n{kind}")
        for name, summary in descriptions.items():
            typer.echo(hang(f"  {name:<26} ", summary))


def new(
    task: Annotated[str | None, Option(help="The task: mnist, moons, identity …")] = None,
    vary: Annotated[str | None, Option(help="The setting to compare: model.skip, train.lr …")] = None,
    values: Annotated[str | None, Option(help="Its values, with commas: none,identity.")] = None,
    model: Annotated[
        str | None, Option("--from", metavar="FILE.py:NAME", help="Read the model from a PyTorch module or a function.")
    ] = None,
    steps: Annotated[int, Option(help="Steps of training.")] = 1000,
    seeds: Annotated[int, Option(help="Seeds per group.")] = 5,
) -> None:
    """Write a short, commented study of your own to stdout.

    Asks for what no option says, if it is run in a terminal. --from reads a plain or residual stack of Linear, norm,
    activation and dropout from PyTorch code, and says in comments what it could not read.
    """
    from gradlab.spec import yaml_text
    from gradlab.studies.drafting import EXAMPLES, draft

    asks = sys.stdin.isatty() and task is None and vary is None and model is None
    if asks:
        task = typer.prompt("Which task", "mnist", err=True)
        vary = typer.prompt(f"Which setting is compared ({', '.join(EXAMPLES)})", "model.skip", err=True)
        usual = ",".join(map(str, EXAMPLES.get(vary, ())))
        values = typer.prompt("Its values", usual, err=True)
    fields, unread = _read_torch(model) if model is not None else (None, ())
    given = [yaml_text.parse(value, "--values") for value in values.split(",")] if values else ()
    chosen = vary or "model.skip"
    if not given and chosen not in EXAMPLES:
        raise InvalidInput(f"--values is missing: the values of {chosen}, with commas")
    text = draft(task or "mnist", chosen, given, model=fields, steps=steps, seeds=seeds, unread=unread)
    typer.echo(text, nl=False)


def _read_torch(target: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The `model` section that a module, or a function that makes one, stands for."""
    from gradlab.cli.loading import loaded
    from gradlab.engines.torch.require import require_torch

    torch = require_torch()
    from gradlab.torch.reading import read_model

    made = loaded(target)
    if not isinstance(made, torch.nn.Module) and callable(made):
        made = made()
    made = made[0] if isinstance(made, tuple) and made else made
    if not isinstance(made, torch.nn.Module):
        raise InvalidInput(f"{target}: is no torch module and makes none, but {with_article(type(made).__name__)}")
    return read_model(made)


def show(
    study: StudyName,
    resolved: Annotated[bool, Option("--resolved", help="Show every group with all defaults.")] = False,
    as_json: PlainJson = False,
) -> None:
    """Show a study as YAML, ready to copy and change.

    Prints the file as written, or (--resolved) every group with every field.
    """
    from gradlab import studies
    from gradlab.cli.output import emit_json, visible

    as_written = not resolved and not as_json
    if not as_written or study not in studies.names():  # a built-in study is known to be valid
        from gradlab.spec.yaml_text import dump
        from gradlab.studies.loading import load

        loaded = load(study)
    if resolved:
        groups = {group.name: group.config.model_dump(mode="json") for group in loaded.groups}
        emit_json(groups) if as_json else typer.echo(visible(dump(groups)), nl=False)
    elif as_json:
        emit_json(loaded.study.model_dump(mode="json", exclude_unset=True))
    else:
        text = studies.locate(study).read_text(encoding="utf8")
        typer.echo(visible(text) if sys.stdout.isatty() else text, nl=False)


def schema() -> None:
    """Print the JSON Schema of study files.

    Editors use it to complete and check YAML.
    """
    from gradlab.spec.schema import study_schema

    typer.echo(json.dumps(study_schema(), indent=2))


def audit(
    study: Annotated[
        str, Argument(metavar="STUDY", help="A built-in name, a YAML file, or MODULE:ARMS for code of your own.")
    ],
    seeds: Annotated[int | None, Option(help="How many seeds, instead of the study's own.", min=1)] = None,
    overrides: Annotated[
        list[str] | None, Option("--set", metavar="PATH=VALUE", help="Change a value, like train.lr=3e-4.")
    ] = None,
    suggest: Annotated[
        Path | None, Option(metavar="FILE", help="Write the factorial study that separates the causes, ready to run.")
    ] = None,
    factor: Annotated[
        str | None,
        Option(
            metavar="NAMES",
            help="For MODULE:ARMS: what the arms are meant to differ in, comma-separated, like optimizer,lr.",
        ),
    ] = None,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object on stdout, with hashes.")] = False,
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
    from gradlab.cli.output import answer
    from gradlab.spec.yaml_text import dump

    if study.endswith(".py") and Path(study).is_file():
        raise InvalidInput(f"{study} is Python code: name the dict of functions in it, as {study}:ARMS")
    if is_target(study):
        if overrides or seeds is not None or suggest is not None:
            raise StudyError("--set, --seeds and --suggest belong to studies; the functions decide that themselves")
        with redirect_stdout(sys.stderr):  # what the module prints is not the answer
            arms = _call_if_function(study, loaded(study))
        audited = api.audit_factories(arms, factor=factor)
    else:
        if factor is not None:
            raise StudyError("--factor is for MODULE:ARMS; a study declares its factor in its file (`factor:`)")
        audited = api.audit(study, overrides=tuple(overrides or ()), seeds=seeds)
    if suggest is not None:
        if audited.suggestion is None:
            raise StudyError(f"--suggest: the audit of {study} found no cause that another study could separate")
        try:
            suggest.write_text(dump(audited.suggestion), encoding="utf8")
        except OSError as error:
            raise StoreError(f"{suggest}: {error.strerror or error}") from None
        typer.echo(f"written: {suggest}; run it with gradlab run {suggest}", err=True)
    answer(audited, show.audit, as_json)
    if not audited.passed:
        raise typer.Exit(AUDIT_FAILED)


def _call_if_function(target: str, arms: Any) -> Any:
    """The dict of functions, or what a function without arguments returns."""
    if not callable(arms):
        return arms
    try:
        return arms()
    except (Exception, SystemExit) as error:
        raise InvalidInput(f"{target}: {described(error)}; name a dict of functions") from error


def predict(
    study: StudyName,
    overrides: Annotated[
        list[str] | None, Option("--set", metavar="PATH=VALUE", help="Change a value, like model.depth=40.")
    ] = None,
    groups: Annotated[
        list[str] | None, Option(metavar="GROUPS", help="Only these: a group's name, or depth=5|20.")
    ] = None,
    layers: Annotated[
        bool | None, Option("--layers/--no-layers", help="Print every layer [default: if there are few groups].")
    ] = None,
    figure: Annotated[
        Path | None, Option(metavar="FILE", help="Draw signal and δ by layer: .png, .pdf or .svg.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Predict signal, δ and gradients by layer, before training.

    Mean-field theory with its correction for the width, from the configuration and the task's inputs; what it does not
    cover is simulated by drawing initial networks, and called that. Nothing is trained.

    gradlab predict identity --figure theory.png
    """
    from gradlab import api
    from gradlab.cli import show
    from gradlab.cli.output import answer
    from gradlab.notices import say
    from gradlab.words import visible

    kind = "" if figure is None else figure.suffix.removeprefix(".").lower()
    if figure is not None and kind not in FORMATS:
        raise InvalidInput(f"--figure {str(figure)!r}: accepted: .{', .'.join(FORMATS)}")
    predicted = api.predict(study, overrides=overrides or (), groups=groups)
    few = len(predicted.groups) <= MOST_TABLES
    answer(predicted, lambda shown: show.predicted(shown, layers=few if layers is None else layers), as_json)
    if figure is not None:
        from gradlab.report.draw import render_chart
        from gradlab.runs.store.files import write_bytes

        write_bytes(figure, render_chart(predicted.chart(), kind))
        say(f"wrote {visible(str(figure))}")
