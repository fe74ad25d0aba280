"""The live lab as a process beside yours, for notebooks and scripts: started, named by its link, stopped.

It is `gradlab lab` with a pipe to you: when your process ends, however it ends, the pipe closes and the lab closes.
Being a process of its own, it shares neither your interpreter nor your threads.
"""

from __future__ import annotations

import atexit
import json
import subprocess
import sys
import tempfile
import webbrowser
from html import escape
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gradlab.errors import EnvironmentFault, GradlabError, InvalidInput

PATIENCE = 10.0
"""Seconds that a lab has to close before it is ended."""
_OPEN: set[LiveLab] = set()
"""Labs that were opened and not stopped: one whose handle nobody keeps stays open all the same."""


class LiveLab:
    """A live lab that is open: `url` is its link, `stop()` closes it; also a context manager."""

    def __init__(self, process: subprocess.Popen[str], told: dict[str, Any]) -> None:
        self._process = process
        self.url: str = told["url"]
        """The link. It holds a key: whoever has it can train networks and start runs in `folder`."""
        self.folder = Path(told["folder"])
        """Where its runs and saved studies are."""
        _OPEN.add(self)

    @property
    def running(self) -> bool:
        """Whether it is open."""
        return self._process.poll() is None

    def stop(self) -> None:
        """Close it. Runs that were started from it go on. Idempotent."""
        _OPEN.discard(self)
        _end(self._process)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<live lab at {self.url}>" if self.running else "<live lab, closed>"

    def _repr_html_(self) -> str:
        if not self.running:
            return "<p>The live lab is closed.</p>"
        return (
            f'<p>The live lab is open: <a href="{escape(self.url, quote=True)}" target="_blank">open its page</a>.</p>'
        )


def lab(
    folder: str | Path = ".", *, lesson: str | None = None, port: int | None = None, browser: bool = True
) -> LiveLab:
    """Open the live lab, a page on which two networks learn side by side, and return at once.

        >>> page = gradlab.lab()                     # opens a browser; page.url is the link
        >>> page.stop()
        >>> with gradlab.lab(lesson="skip"): input("Enter closes the lab")

    `folder` holds its runs and saved studies; `lesson` opens a lesson by its name; `port` is 8765 or the next free one.
    The lab is a process of its own, which ends when yours does. Needs the extra `[web]`.
    """
    words = ["lab", "--json", "--no-browser", "--attended"]
    words += [] if lesson is None else ["--lesson", lesson]
    words += [] if port is None else ["--port", str(port)]
    words += ["--", str(folder)]
    with tempfile.TemporaryFile("w+", encoding="utf8") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "gradlab", *words],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True, encoding="utf8",
            start_new_session=True,  # an interrupt of your code is not meant for the lab
        )  # fmt: skip
        told = _read_link(process)
        if told is None:
            _end(process)
            said.seek(0)
            raise _refusal(process.returncode, said.read())
    found = LiveLab(process, told)
    if browser:
        webbrowser.open(found.url)
    return found


@atexit.register
def _stop_all() -> None:
    for each in tuple(_OPEN):
        each.stop()


def _read_link(process: subprocess.Popen[str]) -> dict[str, Any] | None:
    """The JSON object that the lab prints once it listens; None if it ended without."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.rstrip() == "}":
            found: dict[str, Any] = json.loads("".join(lines))
            return found
    return None


def _refusal(code: int, said: str) -> GradlabError:
    words = said.strip().removeprefix("gradlab: ") or f"the lab ended with code {code}"
    return InvalidInput(words) if code == InvalidInput.exit_code else EnvironmentFault(words)


def _end(process: subprocess.Popen[str]) -> None:
    """Close the pipes, which asks it to end; then make it."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None and not pipe.closed:
            pipe.close()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
