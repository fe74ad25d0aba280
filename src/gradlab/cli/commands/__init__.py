"""Commands, in one file per family: `studies`, `training`, `runs`, `instruments`, `scripts`. A function is a command.

`cli/__init__.py` lists them in the order of the help. Their modules import only what the help needs: everything else is
imported by the command that runs. Here are the arguments and options that several commands share.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

StudyName = Annotated[str, Argument(metavar="STUDY", help="A built-in name or a YAML file.")]
RunPath = Annotated[Path, Argument(metavar="RUN", help="The run folder, such as runs/identity.")]
AsJson = Annotated[bool, Option("--json", help="Print one JSON object on stdout.")]
PlainJson = Annotated[bool, Option("--json", help="Print JSON on stdout.")]
Tables = Annotated[bool, Option("--tables", help="Print all tables of the report as well.")]
Workers = Annotated[int | None, Option("-j", "--workers", help="Trials at a time [default: all cores].", min=1)]
AUDIT_FAILED = 3
"""Exit code if a comparison is not fair."""
