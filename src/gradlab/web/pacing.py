"""When the next frame is due: at most so many a second, and for a small share of what the training itself gets.

The share is one of processor time, not of the clock: where other programs starve the training, frames become rarer too.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic, thread_time
from typing import NamedTuple

from gradlab.web.limits import FRAMES_PER_SECOND

SOONEST, LATEST = 1 / FRAMES_PER_SECOND, 1.0
"""Seconds between two frames, at least and at most, while there is something new."""
BUSY, IDLE = 0.05, 0.5
"""What frames may cost: a share of the training's processor time, and of the time in which it waits for its page."""
GLANCE = 0.005
"""Seconds between two looks at the clock, at least."""


class Moment(NamedTuple):
    """What makes a new frame worth while: other networks, playing or not, an order that was heard, another step."""

    load: int
    playing: bool
    told: int
    step: int


@dataclass
class Effort:
    """What the training has taken so far; written by the thread that trains, read by the one that looks."""

    processor: float = 0.0
    """Seconds of a processor."""
    elapsed: float = 0.0
    """Seconds on the clock, of stretches that have ended."""
    since: float | None = None
    """When the stretch began that is going on."""
    _began: float = 0.0

    def begin(self) -> None:
        """A stretch of steps begins."""
        self.since, self._began = monotonic(), thread_time()

    def end(self) -> None:
        """It has ended."""
        if self.since is not None:
            self.processor += thread_time() - self._began
            self.elapsed, self.since = self.elapsed + monotonic() - self.since, None

    def until(self, now: float) -> float:
        """Seconds on the clock, with the stretch that is going on."""
        since = self.since
        return self.elapsed + (0.0 if since is None else max(now - since, 0.0))


class Pace:
    """The pause between two frames: long enough to have earned what the latest one cost."""

    def __init__(self, effort: Effort) -> None:
        self._effort = effort
        self._cost, self._last, self._processor, self._elapsed = 0.0, 0.0, 0.0, 0.0

    def until_next(self, shown: Moment, now: Moment, time: float) -> float:
        """Seconds until the next frame is due, or until it makes sense to ask again; an order is not kept waiting."""
        passed = time - self._last
        if passed < SOONEST or shown._replace(step=now.step) != now:
            return SOONEST - passed
        idle = max(passed - (self._effort.until(time) - self._elapsed), 0.0)
        missing = self._cost - BUSY * (self._effort.processor - self._processor) - IDLE * idle
        return 0.0 if missing <= 0 else min(max(missing / IDLE, GLANCE), LATEST - passed)

    def spend(self, cost: float, time: float) -> None:
        """A frame that began at `time` took `cost` seconds of a processor."""
        self._cost, self._last = cost, time
        self._processor, self._elapsed = self._effort.processor, self._effort.until(time)
