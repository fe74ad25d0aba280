"""When the next frame is due: at most so many a second, and of a busy processor only a small share."""

from __future__ import annotations

from typing import NamedTuple

from gradlab.web.limits import FRAMES_PER_SECOND

SOONEST = 1 / FRAMES_PER_SECOND
BUSY, IDLE = 0.05, 0.5
"""Share of the time that frames may cost: while training needs all of its time, and while it waits for its page."""


class Moment(NamedTuple):
    """What makes a new frame worth while: other networks, playing or not, an order that was heard, another step."""

    load: int
    playing: bool
    told: int
    step: int


class Pace:
    """The pause between two frames, from what the latest one cost and how busy the training was since."""

    def __init__(self) -> None:
        self._pause, self._since = SOONEST, (0.0, 0.0)

    def until_next(self, shown: Moment, now: Moment) -> float:
        """Seconds from the beginning of a frame to that of the next; an order or an end is not kept waiting."""
        return self._pause if shown._replace(step=now.step) == now else SOONEST

    def spend(self, cost: float, now: float, trained: float) -> None:
        """A frame took `cost` seconds of a processor; `trained` are the seconds for which training went on, in all.

        With t of the last s seconds spent in training, the frames get the share BUSY·t/s + IDLE·(1 − t/s).
        """
        then, before = self._since
        self._since = (now, trained)
        busy = min(max((trained - before) / max(now - then, 1e-6), 0.0), 1.0)
        self._pause = max(SOONEST, cost / (busy * BUSY + (1 - busy) * IDLE))
