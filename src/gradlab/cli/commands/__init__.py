"""Commands, in one file per family: `studies`, `training`, `runs`, `instruments`, `scripts`. A function is a command.

`cli/__init__.py` lists them in the order of the help. Their modules import only what the help needs: everything else is
imported by the command that runs. Here are the arguments and options that several commands share.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from gradlab.errors import InvalidInput

StudyName = Annotated[str, Argument(metavar="STUDY", help="A built-in name or a YAML file.")]


def find_run(run: Path | None) -> Path | None:
    """The run folder that is meant: `identity` is `runs/identity` where there is no folder of that name."""
    return Path("runs") / run if run is not None and not run.exists() and (Path("runs") / run).is_dir() else run


RunPath = Annotated[
    Path, Argument(metavar="RUN", help="The run: its folder, or its name below runs/.", callback=find_run)
]
AsJson = Annotated[bool, Option("--json", help="Print one JSON object on stdout.")]
PlainJson = Annotated[bool, Option("--json", help="Print JSON on stdout.")]
Tables = Annotated[bool, Option("--tables", help="Print all tables of the report as well.")]
Workers = Annotated[int | None, Option("-j", "--workers", help="Trials at a time [default: all cores].", min=1)]
Until = Annotated[str | None, Option(metavar="settled", help="Add seeds until every claim is settled, or cannot be.")]
MostSeeds = Annotated[int, Option(help="With --until: seeds per group at most.", min=1)]
Budget = Annotated[
    str | None,
    Option(metavar="TIME", help="After 90s, 20min or 2h no command and, with --until, no round of seeds is begun."),
]
Matters = Annotated[
    float | None,
    Option(help="The smallest difference that matters; of losses, a fraction [default: 0.005; in studies, 5 %]."),
]
ProjectPath = Annotated[
    Path | None,
    Option(
        metavar="FOLDER",
        help="Freeze the claims in the ledger of this project first, and report how many it has seen.",
    ),
]
AUDIT_FAILED = 3
"""Exit code if a comparison is not fair."""


def read_until(until: str | None, most: int, seeds: int | None) -> Any:
    """The seeds to plan with: a number, None for the study's own, or how far to go until the claims are settled."""
    from gradlab.studies.loading import until_settled

    if until is None:
        return seeds
    if until != "settled":
        raise InvalidInput(f"--until {until!r}: there is only --until settled")
    return until_settled(max(most, seeds or 0), seeds)


def read_seconds(option: str, text: str | None) -> float | None:
    """Seconds: `90s`, `20min`, `2h`."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|min|h)", text.strip())
    if match is None:
        raise InvalidInput(f"{option} {text!r}: write it as 90s, 20min or 2h")
    return float(match[1]) * {"s": 1, "min": 60, "h": 3600}[match[2]]
