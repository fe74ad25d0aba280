"""Commands that look at code and machine: `probe` a model, `check-part`, `bench`; and the live `lab`."""

from __future__ import annotations

import json
import shutil
import threading
import webbrowser
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from gradlab.cli.commands import AsJson, PlainJson
from gradlab.errors import InvalidInput, StoreError, StudyError, described, nearest

QUIET = "This pass shows nothing wrong. Next: can it learn one batch by heart?"
WORKLOADS = "ABCDEFGHIJ"


def probe(
    target: Annotated[str, Argument(metavar="MODULE:FACTORY", help="A function that returns (model, batch, loss).")],
    against: Annotated[
        str | None, Option(metavar="MODULE:FACTORY", help="The model before the fix: show what changed.")
    ] = None,
    overfit: Annotated[bool, Option(help="Also check whether a copy can overfit the batch.")] = False,
    full: Annotated[bool, Option("--full", help="Show every module and parameter, not only blocks.")] = False,
    figure: Annotated[Path | None, Option(metavar="FILE", help="Draw activations and δ to this file.")] = None,
    as_json: AsJson = False,
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
    measured, batch, loss = _run_probe(target)
    if against is not None:
        change = measured.against(_run_probe(against)[0])
        _draw(change, figure)
        if as_json:
            emit_json(change.to_json())
        else:
            show.frames([("Before and after", change.table())], str(change))
        return
    diagnosis = measured.diagnose(overfit=batch, loss=loss) if overfit else measured.diagnose()
    diagnosis = replace(diagnosis, quiet=f"{QUIET} gradlab probe {target} --overfit")
    _draw(measured, figure)
    tables = {"modules": measured.table(), "parameters": measured.parameters()}
    if as_json:
        records = {name: table.to_dict("records") for name, table in tables.items()}
        emit_json({**records, "loss": measured.loss, **diagnosis.to_json()})
        return
    whole = [(name.capitalize(), table) for name, table in tables.items()]
    show.frames(whole if full else [("Blocks, in the order in which they run", measured.blocks())], str(diagnosis))


def doctor(
    target: Annotated[
        str, Argument(metavar="MODULE:FACTORY", help="A function that returns (model, batch, loss), or a dict of them.")
    ],
    full: Annotated[bool, Option("--full", help="Show every check with its number, also those that are fine.")] = False,
    seconds: Annotated[float, Option(help="Roughly how long it may take.", min=1)] = 45.0,
    only: Annotated[str, Option(metavar="CHECKS", help="Make only these checks, separated by commas.")] = "",
    page: Annotated[Path | None, Option(metavar="FILE", help="Write an HTML page with pictures to this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Find out why a PyTorch model does not train.

    Goes through the experiments that an expert would make, on copies, cheap ones first: what the loss gets and where it
    begins, data and labels, which outputs depend on which inputs, what the training step does to the gradient, whether
    one batch can be learned, learning rates, evaluation. Each check ends in fine, found or cannot tell; the diagnosis
    says what is wrong, how sure that is, what to do, and what was not checked and why.

    MODULE is a Python file or an importable module (its code is run). FACTORY returns (model, batch, loss) as for
    `gradlab probe`, or a dict with model, batch and loss, and where there are any optimizer, loader, val_loader,
    scheduler, step and metric. step(model, batch, optimizer) is your own training step: many faults are only seen with
    it. The loss is called as loss(output, target), or as loss(model, batch) if its first argument is named model.
    """
    from gradlab.checks.check import all_checks
    from gradlab.checks.training import read_training
    from gradlab.checks.visit import visit
    from gradlab.cli.loading import loaded
    from gradlab.cli.output import emit_json, visible
    from gradlab.engines.torch.require import require_torch

    require_torch()
    chosen, known = [name for name in only.split(",") if name], [kind.code for kind in all_checks()]
    for name in chosen:
        if name not in known:
            raise InvalidInput(f"--only: {name!r} is not a check; there are {', '.join(known)}{nearest(name, known)}")
    factory = loaded(target)
    if not callable(factory):
        raise InvalidInput(f"{target} is not a function; it must return (model, batch, loss), or a dict of them")
    try:
        given = factory()
    except (Exception, SystemExit) as error:
        raise InvalidInput(f"{target}: {described(error)}") from error
    try:
        training = read_training(given)
    except InvalidInput as error:
        raise InvalidInput(f"{target}: {error}") from error
    made = visit(training, seconds, chosen)
    if page is not None:
        made.save(page)
    if as_json:
        emit_json(made.to_json())
        return
    width = min(100, shutil.get_terminal_size((80, 24)).columns)
    typer.echo(visible("\n".join(made.lines(width, full=full))))


def _run_probe(target: str) -> tuple[Any, Any, Any]:
    """Probe the model that a factory makes; return the probe, the batch and the loss."""
    from gradlab import api
    from gradlab.torch.overfit import run_batch

    model, batch, loss = _call_factory(target)
    try:
        with api.probe(model) as measured:
            run_batch(model, batch, loss)[1].backward()
    except (Exception, SystemExit) as error:  # mismatched shapes or another kind of loss: an error of the user's code
        raise InvalidInput(f"{target}: in forward or backward: {described(error)}") from error
    return measured, batch, loss


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


def _draw(what: Any, path: Path | None) -> None:
    if path is None:
        return
    try:
        what.figure().savefig(path)
    except (OSError, ValueError) as error:
        raise StoreError(f"{path}: {getattr(error, 'strerror', None) or error}") from None


def check_part(
    file: Annotated[Path, Argument(metavar="FILE", help="A Python file that defines parts. It is run.")],
    as_json: PlainJson = False,
) -> None:
    """Check your own parts.

    Runs the contract tests of each part's kind: gradients against finite differences, shapes, purity, names.
    """
    from gradlab.cli.output import emit_json
    from gradlab.testing import check_file
    from gradlab.words import visible

    reports = check_file(file)
    if as_json:
        emit_json(
            [{"kind": r.kind, "name": r.name, "check": c.what, "problem": c.problem} for r in reports for c in r.checks]
        )
    for report in reports if not as_json else ():
        typer.echo(f"{report.kind} {report.name}")
        for check in report.checks:
            problem = f": {check.problem}" if check.problem else ""
            typer.echo(visible(f"  {'ok  ' if check.problem is None else 'FAIL'} {check.what}{problem}"))
    if any(report.problems for report in reports):
        raise typer.Exit(1)


def bench(
    peers: Annotated[str, Option(help="Peers, separated by commas.")] = "torch,jax,sklearn",
    workloads: Annotated[str, Option(help=f"Workloads: letters of {WORKLOADS}.")] = "ABCDEFIJ",
    rounds: Annotated[int, Option(help="Rounds; the systems take turns in each.", min=1)] = 5,
    out: Annotated[Path | None, Option(help="Write bench.json, bench.txt and bench.png to this folder.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare training speed with peers.

    Trains the same networks on the same data and batches in gradlab, PyTorch, JAX and scikit-learn, each at its best
    setting, in one process pinned to one core. Install peers with the extra [bench]; missing ones are listed. G (a
    sweep of 64 architectures) and H (the depth study on all cores) run in separate processes and take minutes.
    """
    from gradlab.bench import figure, measure
    from gradlab.bench.systems import PEERS
    from gradlab.cli.output import emit_json
    from gradlab.report.draw import render_image

    names = [name for name in peers.split(",") if name]
    for name in names:
        if name not in PEERS:
            raise StudyError(f"--peers: {name!r} is not known; accepted: {', '.join(PEERS)}{nearest(name, PEERS)}")
    for letter in workloads:
        if letter not in WORKLOADS:
            raise StudyError(f"--workloads: {letter!r} is not one of {', '.join(WORKLOADS)}")
    report = measure.run(workloads, names, rounds, lambda text: typer.echo(text, err=True))
    text = "\n".join(figure.lines(report))
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "bench.json").write_text(json.dumps(report, indent=2), encoding="utf8")
        (out / "bench.txt").write_text(text + "\n", encoding="utf8")
        (out / "bench.png").write_bytes(render_image(figure.bars(report), "png"))
    emit_json(report) if as_json else typer.echo(text)


def lab(
    folder: Annotated[
        Path, Argument(metavar="[FOLDER]", help="Where runs and saved studies are [default: here].", show_default=False)
    ] = Path("."),
    port: Annotated[
        int | None, Option(help="The port [default: 8765, or the next free one].", min=1, max=65535)
    ] = None,
    host: Annotated[
        str, Option(metavar="ADDRESS", help="Listen on another address, so that other machines can reach it.")
    ] = "127.0.0.1",
    lesson: Annotated[
        str | None, Option(metavar="NAME", help="Open a lesson, such as `skip`, instead of the playground.")
    ] = None,
    lessons: Annotated[
        Path | None,
        Option(metavar="FOLDER", help="Lessons of your own: a file NAME.yaml each, beside the built-in ones."),
    ] = None,
    check: Annotated[bool, Option("--check", help="Only check the lessons, list them and end.")] = False,
    browser: Annotated[
        bool, Option("--browser/--no-browser", help="Open the page in a browser [default].", show_default=False)
    ] = True,
    as_json: Annotated[bool, Option("--json", help="Print the link as one JSON object on stdout.")] = False,
    attended: Annotated[bool, Option("--attended", help="End when standard input closes.", hidden=True)] = False,
) -> None:
    """Open the live lab, where two networks learn side by side.

    With lessons, and with all runs below a folder.

    Serves a page on this machine until Ctrl-C, and prints its link. The link holds a key: whoever has it can train
    networks, and start, stop and read the runs in FOLDER. Nothing is loaded from elsewhere; it works offline. Needs the
    extra [web].
    """
    from gradlab.cli.output import emit_json
    from gradlab.notices import say
    from gradlab.web.lessons import get_lesson
    from gradlab.web.lessons import lessons as all_lessons
    from gradlab.web.serve import Address, end_with_input, is_loopback, require_web, serve

    require_web()
    known = all_lessons(lessons)
    if check:
        for found in known.values():
            typer.echo(f"{found.name}: {found.question}")
        return
    page = "" if lesson is None else f"lesson/{get_lesson(lesson, lessons).name}"
    if not is_loopback(host):
        say(
            f"WARNING: --host {host}: everybody who can reach this machine and learns the link can train networks here "
            "and start and read runs, and the connection is not encrypted"
        )

    def announce(address: Address) -> None:
        link = address.link(page)
        if as_json:
            emit_json({"url": link, "host": address.host, "port": address.port, "folder": str(folder.resolve())})
        else:
            typer.echo(link)
            say("the live lab is at the link above; Ctrl-C ends it (runs that were started go on)")
            if host in ("0.0.0.0", "::"):
                say("on another machine, put this machine's address into the link")
        if browser:
            webbrowser.open(link)
        if attended:
            threading.Thread(target=end_with_input, name="gradlab-lab-attended", daemon=True).start()

    serve(folder, host, port, announce, lessons)
    say("the lab is closed")
