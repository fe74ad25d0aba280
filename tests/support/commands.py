"""`gradlab WORDS…` in a test: in this process (which saves a second), or in a separate one if needed."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from gradlab.cli import main

ENVIRONMENT = {**os.environ, "PYTHONWARNINGS": "error", "NO_COLOR": "1", "COLUMNS": "120"}


@dataclass(frozen=True)
class Done:
    """The result of a command."""

    returncode: int
    stdout: str
    stderr: str


def gradlab(*words: str, cwd: Path) -> Done:
    """Run the command in this process: the same entry point, separate streams and folder."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf8", write_through=True) for _ in range(2))
    words = ("gradlab", *words)
    with (
        chdir(cwd),
        patch.object(sys, "argv", list(words)),
        patch.dict(os.environ, {"NO_COLOR": "1", "COLUMNS": "120"}),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return Done(code, *(stream.buffer.getvalue().decode() for stream in (out, err)))  # type: ignore[attr-defined]


def spawned(*words: str, cwd: Path, timeout: float = 120, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the command in a separate process."""
    command = [sys.executable, "-m", "gradlab", *words]
    return subprocess.run(command, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, timeout=timeout, **options)
