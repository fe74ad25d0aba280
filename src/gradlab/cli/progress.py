"""The live progress of a run on a terminal: finished and running trials, time left."""

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
from gradlab.plans.plan import Plan
from gradlab.runs.coordinator import Tally


class Progress:
    """Drawn on a terminal only; with `live`, one line for every trial in training."""

    def __init__(self, planned: Plan, live: bool = False) -> None:
        self._planned = planned
        self._each = live
        self._console = Console(stderr=True, highlight=False)
        self._tally: Tally | None = None
        self._live = Live(
            console=self._console,
            get_renderable=self._render,
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
        """Start the display."""
        announced, self._tally = self._tally is not None, tally
        for text in self._planned.announcements if tally.todo and not announced else ():
            self._say(text)
        if tally.phase is not None:
            done = tally.planned - tally.todo
            self._say(f"{tally.phase}: {tally.todo:,} trials" + (f", {done:,} already done" if done else ""))
        if tally.todo and sys.stderr.isatty():
            self._live.start()

    def on_stop(self) -> None:
        """Announce the stop after the first Ctrl-C."""
        self._say("stopping: finished trials are kept and the report is written; press Ctrl-C again to stop at once")

    def on_report(self) -> None:
        """Announce the report, which takes some seconds; the bar has done its work."""
        with suppress(OSError, ValueError):
            self._live.stop()
        self._say("writing the report…")

    def _say(self, text: str) -> None:
        with suppress(OSError, ValueError):  # the terminal may be gone, which must not end the run
            self._console.print(text, soft_wrap=True)

    def _render(self) -> RenderableType:
        if self._tally is None:
            return ""
        progress = self._tally.snapshot()
        grid = Table.grid(padding=(0, 1))
        grid.add_row(ProgressBar(total=1.0, completed=self._tally.share, width=32), escape(headline(progress)))
        if not self._each:
            return grid
        return Group(grid, *(escape(f"  {line}") for line in running_lines(progress["running"])))


def headline(progress: Any) -> str:
    """Return `tuning: 12 of 40 trials, 2 running, 1 diverged, 3.2 per second, 0:12 left`."""
    phase = f"{progress['phase']}: " if progress.get("phase") else ""
    words = [f"{phase}{progress['done'] + progress['failed']:,} of {progress['planned']:,} trials"]
    for key, count in (
        ("running", len(progress["running"])),
        ("diverged", progress["diverged"]),
        ("failed", progress["failed"]),
    ):
        words += [f"{count:,} {key}"] if count else []
    if progress["per_second"]:
        words.append(f"{number(progress['per_second'], 2)} per second")
    if progress["seconds_left"] is not None:
        minutes, seconds = divmod(round(progress["seconds_left"]), 60)
        hours, minutes = divmod(minutes, 60)
        words.append(f"{hours}:{minutes:02d}:{seconds:02d} left" if hours else f"{minutes}:{seconds:02d} left")
    return ", ".join(words)


def running_lines(running: Any) -> list[str]:
    """Return one line for every trial in training: name, step, loss, seconds."""
    return [
        f"{each['name']}: step {each['steps']:,} of {each['of']:,}, "
        f"loss {number(_value(each['loss']))}, {each['seconds']:.0f} s"
        for each in running
    ]


def _value(loss: float | str | None) -> float | None:
    """Convert a loss from JSON, which has non-finite numbers as strings."""
    return float(loss) if loss is not None else None
