"""`gradlab probe`: look inside a PyTorch model of the user's own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from gradlab.errors import InvalidInput, described

RANK = 18


def command(
    target: Annotated[
        str, typer.Argument(metavar="MODULE:FACTORY", help="A function that returns (model, batch, loss).")
    ],
    against: Annotated[
        str | None, typer.Option(metavar="MODULE:FACTORY", help="The model before the fix: show what changed.")
    ] = None,
    overfit: Annotated[bool, typer.Option(help="Try also whether a copy can learn the batch by heart.")] = False,
    figure: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw activations and δ to this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Look inside a PyTorch model: one forward and one backward pass.

    MODULE is a Python file or an importable module (its code is run); FACTORY returns (model, (input, target), loss).
    The tables show activations and the backprop signal of every module and the gradient of every parameter; the
    diagnosis says in words what is wrong, and is quiet when all is well. With --against, it says which findings are
    gone, which are new and which are still there.
    """
    from gradlab.cli import show
    from gradlab.cli.output import emit_json

    if against is not None and overfit:
        raise InvalidInput("--overfit and --against: one at a time")
    probe, batch, loss = _probed(target)
    if against is not None:
        change = probe.against(_probed(against)[0])
        if figure is not None:
            _draw(change, figure)
        if as_json:
            emit_json(change.to_json())
        else:
            show.frames([("Before and after", change.table())], str(change), sys.stdout)
        return
    found = probe.diagnose(overfit=batch, loss=loss) if overfit else probe.diagnose()
    if figure is not None:
        _draw(probe, figure)
    tables = {"modules": probe.table(), "parameters": probe.parameters()}
    if as_json:
        told: dict[str, Any] = {"diagnosis": [vars(finding) for finding in found.found]}
        told["overfit"] = None if found.overfit is None else {**vars(found.overfit), "ok": found.overfit.ok}
        emit_json({**{k: t.to_dict("records") for k, t in tables.items()}, **told})
        return
    show.frames([("Modules", tables["modules"]), ("Parameters", tables["parameters"])], str(found), sys.stdout)


def _probed(target: str) -> tuple[Any, tuple[Any, Any], Any]:
    """The probe of what a factory makes, its batch and its loss."""
    from gradlab import api

    model, (x, y), loss = _made(target)
    try:
        with api.probe(model) as probe:
            loss(model(x), y).backward()
    except (Exception, SystemExit) as error:  # shapes that do not fit, a loss of another kind: it is the user's code
        raise InvalidInput(f"{target}: in forward or backward: {described(error)}") from error
    return probe, (x, y), loss


def _made(target: str) -> tuple[Any, tuple[Any, Any], Any]:
    """What the factory returns, checked."""
    from gradlab.cli.loading import loaded

    factory = loaded(target)
    if not callable(factory):
        raise InvalidInput(f"{target} is not a function; it has to return (model, (input, target), loss)")
    try:
        model, (x, y), loss = factory()
    except (Exception, SystemExit) as error:
        words = described(error)
        raise InvalidInput(f"{target}: has to return (model, (input, target), loss): {words}") from error
    if not callable(getattr(model, "named_modules", None)) or not callable(loss):
        raise InvalidInput(f"{target}: has to return (model, (input, target), loss), a module and a function")
    return model, (x, y), loss


def _draw(what: Any, path: Path) -> None:
    from gradlab.errors import StoreError

    try:
        what.figure().savefig(path)
    except (OSError, ValueError) as error:
        raise StoreError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
