"""`gradlab probe`: look inside a PyTorch model of the user's own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from gradlab.errors import InvalidInput

RANK = 18
FORM = "write it as module:function, like train.py:make or mypackage.models:make"


def command(
    target: Annotated[
        str, typer.Argument(metavar="MODULE:FACTORY", help="A function that returns (model, batch, loss).")
    ],
    figure: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw activations and δ to this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Look inside a PyTorch model: one forward and one backward pass.

    MODULE is a Python file or an importable module (its code is run); FACTORY returns (model, (input, target), loss).
    The tables show activations and the backprop signal of every module and the gradient of every parameter; the
    diagnosis says in words what is wrong, and is quiet when all is well.
    """
    from gradlab import api
    from gradlab.cli import show

    model, (x, y), loss = _made(target)
    with api.probe(model) as probe:
        loss(model(x), y).backward()
    if figure is not None:
        probe.figure().savefig(figure)
    if as_json:
        findings = [vars(finding) for finding in probe.diagnose().found]
        tables = {"modules": probe.table(), "parameters": probe.parameters()}
        typer.echo(show.json_text({**{k: t.to_dict("records") for k, t in tables.items()}, "diagnosis": findings}))
        return
    show.frames([("Modules", probe.table()), ("Parameters", probe.parameters())], str(probe.diagnose()), sys.stdout)


def _made(target: str) -> tuple[Any, tuple[Any, Any], Any]:
    """What the factory returns, checked."""
    import importlib
    import importlib.util

    module_name, colon, name = target.rpartition(":")
    if not colon or not module_name or not name:
        raise InvalidInput(f"{target!r}: {FORM}")
    try:
        if module_name.endswith(".py"):
            spec = importlib.util.spec_from_file_location(Path(module_name).stem, module_name)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        else:
            sys.path.insert(0, "")
            module = importlib.import_module(module_name)
    except FileNotFoundError:
        raise InvalidInput(f"{module_name}: there is no such file") from None
    except Exception as error:
        raise InvalidInput(f"{module_name}: {type(error).__name__}: {error}") from error
    factory = getattr(module, name, None)
    if not callable(factory):
        raise InvalidInput(f"{module_name} has no function {name!r}")
    try:
        made = factory()
        model, (x, y), loss = made
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{target}: has to return (model, (input, target), loss): {error}") from error
    return model, (x, y), loss
