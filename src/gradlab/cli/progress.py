"""The live line of a run on a terminal: how far it is, what is running, how long it will take."""

from __future__ import annotations

import sys
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from gradlab.analysis.formatting import number
from gradlab.cli.output import escape
from gradlab.plans.outline import Outline
from gradlab.runs.coordinator import Tally


class Progress:
    """Drawn on a terminal only; with `live`, one line more for every trial in training."""

    def __init__(self, planned: Outline, live: bool = False) -> None:
        self._planned = planned
        self._each = live
        self._console = Console(stderr=True, highlight=False)
        self._tally: Tally | None = None
        self._live = Live(
            console=self._console,
            get_renderable=self._drawn,
            refresh_per_second=5,
            transient=True,
            redirect_stdout=False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with suppress(OSError, ValueError):  # the terminal may be gone
            self._live.stop()

    def on_start(self, tally: Tally) -> None:
        """The run begins."""
        self._tally = tally
        for text in self._planned.announcements if tally.todo else ():
            self._say(text)
        if tally.todo and sys.stderr.isatty():
            self._live.start()

    def on_stop(self) -> None:
        """Ctrl-C was pressed once."""
        self._say("stopping: finished trials are kept, the report is written; Ctrl-C again stops at once")

    def _say(self, text: str) -> None:
        with suppress(OSError, ValueError):  # the terminal may be gone: that is no reason to lose the run
            self._console.print(text, soft_wrap=True)

    def _drawn(self) -> RenderableType:
        if self._tally is None:
            return ""
        seen = self._tally.look()
        grid = Table.grid(padding=(0, 1))
        grid.add_row(ProgressBar(total=1.0, completed=self._tally.share, width=32), escape(headline(seen)))
        if not self._each:
            return grid
        return Group(grid, *(escape(f"  {line}") for line in running_lines(seen["running"])))


def headline(seen: Any) -> str:
    """`12 of 40 trials, 2 running, 1 diverged, 3.2 per second, 0:12 left`."""
    words = [f"{seen['done'] + seen['failed']:,} of {seen['planned']:,} trials"]
    for key, count in (("running", len(seen["running"])), ("diverged", seen["diverged"]), ("failed", seen["failed"])):
        words += [f"{count:,} {key}"] if count else []
    if seen["per_second"]:
        words.append(f"{number(seen['per_second'], 2)} per second")
    if seen["seconds_left"] is not None:
        minutes, seconds = divmod(round(seen["seconds_left"]), 60)
        hours, minutes = divmod(minutes, 60)
        words.append(f"{hours}:{minutes:02d}:{seconds:02d} left" if hours else f"{minutes}:{seconds:02d} left")
    return ", ".join(words)


def running_lines(running: Any) -> list[str]:
    """One line for every trial in training: name, step, loss, seconds."""
    return [
        f"{each['name']}: step {each['steps']:,} of {each['of']:,}, "
        f"loss {number(_value(each['loss']))}, {each['seconds']:.0f} s"
        for each in running
    ]


def _value(loss: float | str | None) -> float | None:
    """JSON has non-finite numbers as words."""
    return float(loss) if loss is not None else None
