"""`gradlab probe`: measure the inside of the user's PyTorch model."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from gradlab.errors import InvalidInput, described

RANK = 18
QUIET = "This pass shows nothing wrong. Next: can it learn one batch by heart?"


def command(
    target: Annotated[
        str, typer.Argument(metavar="MODULE:FACTORY", help="A function that returns (model, batch, loss).")
    ],
    against: Annotated[
        str | None, typer.Option(metavar="MODULE:FACTORY", help="The model before the fix: show what changed.")
    ] = None,
    overfit: Annotated[bool, typer.Option(help="Also check whether a copy can overfit the batch.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Show every module and parameter, not only blocks.")] = False,
    figure: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw activations and δ to this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Look inside a PyTorch model in one forward and backward pass.

    MODULE is a Python file or an importable module (its code is run); FACTORY returns (model, (input, target), loss).
    Instead of (input, target) a batch may hold several inputs, ((a, b), target), or be a dict of keyword arguments for
    a model that returns its loss; loss is then None. The table shows activations and the backprop signal block by
    block, with --full of every module and the gradient of every parameter; the diagnosis lists problems, with evidence
    and what usually helps. With --against, it lists which findings are gone, which are new and which are still there.
    """
    from gradlab.cli import show
    from gradlab.cli.output import emit_json

    if against is not None and overfit:
        raise InvalidInput("--overfit and --against: give only one of them")
    probe, batch, loss = _run_probe(target)
    if against is not None:
        change = probe.against(_run_probe(against)[0])
        if figure is not None:
            _draw(change, figure)
        if as_json:
            emit_json(change.to_json())
        else:
            show.frames([("Before and after", change.table())], str(change), sys.stdout)
        return
    found = probe.diagnose(overfit=batch, loss=loss) if overfit else probe.diagnose()
    found = replace(found, quiet=f"{QUIET} gradlab probe {target} --overfit")
    if figure is not None:
        _draw(probe, figure)
    tables = {"modules": probe.table(), "parameters": probe.parameters()}
    if as_json:
        records = {name: table.to_dict("records") for name, table in tables.items()}
        emit_json({**records, "loss": probe.loss, **found.to_json()})
        return
    if full:
        shown = [("Modules", tables["modules"]), ("Parameters", tables["parameters"])]
    else:
        shown = [("Blocks, in the order in which they run", probe.blocks())]
    show.frames(shown, str(found), sys.stdout)


def _run_probe(target: str) -> tuple[Any, Any, Any]:
    """Probe the model that a factory makes; return the probe, the batch and the loss."""
    from gradlab import api
    from gradlab.torch.overfit import run_batch

    model, batch, loss = _call_factory(target)
    try:
        with api.probe(model) as probe:
            run_batch(model, batch, loss)[1].backward()
    except (Exception, SystemExit) as error:  # mismatched shapes or another kind of loss: an error of the user's code
        raise InvalidInput(f"{target}: in forward or backward: {described(error)}") from error
    return probe, batch, loss


def _call_factory(target: str) -> tuple[Any, Any, Any]:
    """Call the factory and check what it returns."""
    from gradlab.cli.loading import loaded

    factory = loaded(target)
    if not callable(factory):
        raise InvalidInput(f"{target} is not a function; it must return (model, (input, target), loss)")
    try:
        model, batch, loss = factory()
    except (Exception, SystemExit) as error:
        words = described(error)
        raise InvalidInput(f"{target}: must return (model, (input, target), loss): {words}") from error
    if not callable(getattr(model, "named_modules", None)) or not (loss is None or callable(loss)):
        raise InvalidInput(f"{target}: must return (model, (input, target), loss), a module and a function")
    return model, batch, loss


def _draw(what: Any, path: Path) -> None:
    from gradlab.errors import StoreError

    try:
        what.figure().savefig(path)
    except (OSError, ValueError) as error:
        raise StoreError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
