"""`gradlab bench`: training speed compared with peers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from gradlab.errors import StudyError, nearest

RANK = 60


def command(
    peers: Annotated[str, typer.Option(help="Peers, separated by commas.")] = "torch,jax,sklearn",
    workloads: Annotated[str, typer.Option(help="Workloads: letters of ABCDEFGHIJ.")] = "ABCDEFIJ",
    rounds: Annotated[int, typer.Option(help="Rounds; the systems take turns in each.", min=1)] = 5,
    out: Annotated[Path | None, typer.Option(help="Write bench.json, bench.txt and bench.png to this folder.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Compare training speed with peers.

    Trains the same networks on the same data and batches in gradlab, PyTorch, JAX and scikit-learn, each at its best
    setting, in one process pinned to one core. Install peers with the extra [bench]; missing ones are listed. G (a
    sweep of 64 architectures) and H (the depth study on all cores) run in separate processes and take minutes.
    """
    from gradlab.bench import figure, measure
    from gradlab.cli.output import emit_json
    from gradlab.report.draw import render_image

    names = [name for name in peers.split(",") if name]
    for name in names:
        if name not in measure.PEERS:
            raise StudyError(
                f"--peers: {name!r} is not known; accepted: {', '.join(measure.PEERS)}{nearest(name, measure.PEERS)}"
            )
    for letter in workloads:
        if letter not in "ABCDEFGHIJ":
            raise StudyError(f"--workloads: {letter!r} is not one of A, B, C, D, E, F, G, H, I, J")
    report = measure.run(workloads, names, rounds, lambda text: typer.echo(text, err=True))
    text = "\n".join(figure.lines(report))
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "bench.json").write_text(json.dumps(report, indent=2), encoding="utf8")
        (out / "bench.txt").write_text(text + "\n", encoding="utf8")
        (out / "bench.png").write_bytes(render_image(figure.bars(report), "png"))
    emit_json(report) if as_json else typer.echo(text)
