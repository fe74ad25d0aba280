"""A session: the two networks of one page. One thread trains, another one looks and writes frames.

The training thread owns the networks; it hands a copy of their state to the other when that asks for one.
"""

from __future__ import annotations

import threading
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from time import monotonic, perf_counter, thread_time
from typing import Any

import numpy as np

from gradlab.errors import GradlabError, described
from gradlab.plans.plan import Plan
from gradlab.web.fairness import audit_page
from gradlab.web.frames import Stage, describe_stage, make_frame, make_stage
from gradlab.web.messages import Messages
from gradlab.web.pacing import Effort, Moment, Pace
from gradlab.web.pair import Pair, PairState
from gradlab.web.settings import Settings
from gradlab.web.theory import predict_layers

CHUNK_SECONDS, MOST_STEPS = 0.02, 5_000
"""About how long a page waits at most for the networks to answer, and steps in one call."""


@dataclass(frozen=True)
class Order:
    """What to train next, and how far before anything is shown at the page's speed."""

    settings: Settings
    plan: Plan
    playing: bool
    forward: int = 0
    said: str = ""
    """Why it begins, in words."""


class Session:
    """Play, pause, step, rewind two networks; tell whoever listens."""

    def __init__(self, identity: str, auditor: Executor | None = None) -> None:
        self.id = identity
        self._auditor = auditor
        self._change = threading.Condition()
        self.messages = Messages(self._change)
        self._order: Order | None = None
        self._starting: Order | None = None
        self._current: Order | None = None
        self._pair: Pair | None = None
        self._stage: Stage | None = None
        self._load = 0
        self._playing, self._single, self._forward = False, 0, 0
        self._speed: float | None = None
        self._pace = (0.0, 0)
        self._chunk, self._rate, self._effort = 1, 0.0, Effort()
        self._asked, self._given = False, (0, PairState(0, ()))
        self._closed, self._told = False, 0
        self._threads = [
            threading.Thread(target=work, name=f"gradlab-lab-{name}", daemon=True)
            for name, work in (("train", self._train), ("look", self._look))
        ]
        for thread in self._threads:
            thread.start()

    # ------------------------------------------------------------------ from the page

    def begin(self, order: Order) -> int:
        """Train other networks, or the same from the start; return the number that their messages carry."""
        with self._change:
            self._order, self._load = order, self._load + 1
            self._note()
            return self._load

    def play(self) -> None:
        """Go on."""
        with self._change:
            self._playing, self._pace = True, (monotonic(), self.step)
            self._change_pending(playing=True)
            self._note()

    def pause(self) -> None:
        """Stop after the steps that are being made."""
        with self._change:
            self._playing, self._single = False, 0
            self._change_pending(playing=False)
            self._note()

    def make_step(self) -> None:
        """Pause, and make one step."""
        with self._change:
            self._playing, self._single = False, self._single + 1
            self._change_pending(playing=False, more=1)
            self._note()

    def _change_pending(self, *, playing: bool, more: int = 0) -> None:
        """Networks that are about to begin, or are being built, play or not, after so many more steps."""

        def changed(order: Order | None) -> Order | None:
            return None if order is None else replace(order, playing=playing, forward=order.forward + more)

        self._order, self._starting = changed(self._order), changed(self._starting)

    def _note(self) -> None:
        """An order was heard: the next frame says so."""
        self._told += 1
        self._change.notify_all()

    def set_speed(self, steps_per_second: float | None) -> None:
        """Steps per second; None: as fast as they come."""
        with self._change:
            self._speed, self._pace = steps_per_second, (monotonic(), self.step)
            self._change.notify_all()

    def close(self) -> None:
        """End both threads; the networks are let go."""
        with self._change:
            self._closed, self._playing = True, False
            self._change.notify_all()

    def join(self, seconds: float) -> None:
        """Wait for the threads to end."""
        for thread in self._threads:
            thread.join(seconds)

    @property
    def step(self) -> int:
        """Steps made so far."""
        return 0 if self._pair is None else self._pair.step

    @property
    def told(self) -> int:
        """Orders heard so far; a frame carries the number of those that it shows the effect of."""
        return self._told

    @property
    def aim(self) -> tuple[bool, int]:
        """Whether it plays, and the step that it has reached or is on its way to without playing."""
        with self._change:
            pending = self._order or self._starting
            if pending is not None:
                return pending.playing, pending.forward
            return self._playing, max(self.step, self._forward)

    @property
    def training(self) -> bool:
        """Whether it is using a processor: playing, or on its way to a step."""
        with self._change:
            pending = self._order or self._starting
            return pending.playing if pending is not None else self._has_work()

    @property
    def order(self) -> Order | None:
        """What it trains, or is about to."""
        return self._order or self._starting or self._current

    # ------------------------------------------------------------------ the training thread

    def _train(self) -> None:
        with np.errstate(all="ignore"):  # overflow is an outcome here, not a warning
            while True:
                with self._change:
                    while not (self._closed or self._order or self._has_work() or self._asked):
                        self._change.wait()
                    if self._closed:
                        self._pair = self._stage = None
                        self._change.notify_all()
                        return
                    order, self._order = self._order, None
                    self._starting, load = order, self._load
                try:
                    if order is not None:
                        self._start(order, load)
                    elif self._has_work():
                        self._advance()
                    self._answer()
                except Exception as error:  # a fault belongs to this page only
                    self._fail(error)

    def _start(self, order: Order, load: int) -> None:
        self._pair = None  # first, so that two pairs never take memory at the same time
        pair = Pair(order.plan)
        stage = make_stage(order.settings, order.plan, pair.setups)
        self.messages.publish("stage", {"load": load, "said": order.said, **describe_stage(stage)})
        with self._change:
            order = self._starting or order  # play or pause may have been pressed meanwhile
            self._current, self._starting = order, None
            self._playing, self._single, self._forward = order.playing, 0, order.forward
            self._pace, self._chunk, self._rate = (monotonic(), order.forward), 1, 0.0
            self._pair, self._stage = pair, stage
            self._change.notify_all()  # now the other thread may look
        self._ask_for_audit(order, load)

    def _has_work(self) -> bool:
        pair = self._pair
        return (
            pair is not None and not pair.finished and (self._playing or self._single > 0 or pair.step < self._forward)
        )

    def _advance(self) -> None:
        pair = self._pair
        assert pair is not None
        to = self._next_step(pair)
        if to <= pair.step:
            return
        began, before = perf_counter(), pair.step
        self._effort.begin()
        try:
            pair.advance(to)
        finally:
            self._effort.end()
        spent = max(perf_counter() - began, 1e-6)
        made = max(pair.step - before, 1)
        self._rate = made / spent
        self._chunk = int(min(max(CHUNK_SECONDS * self._rate, 1), 4 * self._chunk, MOST_STEPS))
        with self._change:
            if pair.finished:
                self._playing = False
            self._change.notify_all()

    def _next_step(self, pair: Pair) -> int:
        """The step to train to now; waits until one is due at the page's speed."""
        with self._change:
            step = pair.step
            if step < self._forward:
                return min(self._forward, step + self._chunk)
            if self._single:
                self._single -= 1
                return step + 1
            if self._speed is None:
                return step + self._chunk
            since, origin = self._pace
            due = origin + (monotonic() - since) * self._speed
            if due < step + 1:
                self._change.wait(min((step + 1 - due) / self._speed, 0.5))
                return step
            if due > step + max(self._speed, 4 * self._chunk):  # slower than asked for: do not pile up
                self._pace = (monotonic(), step + 1)
            return step + min(int(due - step), self._chunk)

    def _answer(self) -> None:
        """Hand over the state that the other thread asked for."""
        with self._change:
            if not self._asked:
                return
            self._asked = False
        if self._pair is not None:
            state = self._pair.state()
            with self._change:
                self._given = (self._load if self._order is None else -1, state)
                self._change.notify_all()

    def _fail(self, error: Exception) -> None:
        words = str(error) if isinstance(error, GradlabError) else f"this cannot be trained: {described(error)}"
        with self._change:
            self._playing, self._single, self._forward, self._pair, self._starting = False, 0, 0, None, None
            load = self._load
        self.messages.publish("fault", {"load": load, "error": words})

    def _ask_for_audit(self, order: Order, load: int) -> None:
        if self._auditor is None:
            return

        def audit() -> None:
            if load != self._load or self._closed:
                return
            try:
                found: dict[str, Any] = audit_page(order.settings, order.plan)
            except Exception as error:  # the page goes on without
                found = {"state": "unknown", "line": f"Not audited: {described(error)}", "details": [], "only": None}
            if load == self._load:
                self.messages.publish("audit", {"load": load, **found})
                if (expected := predict_layers(order.plan)) is not None:
                    self.messages.publish("theory", {"load": load, "expected": expected})

        self._auditor.submit(audit)

    # ------------------------------------------------------------------ the looking thread

    def _look(self) -> None:
        shown, pace = Moment(0, False, 0, 0), Pace(self._effort)
        while True:
            with self._change:
                while not self._closed and (not self.messages.listeners or self._pair is None or self._now() == shown):
                    self._change.wait()
                while not self._closed and (left := pace.until_next(shown, self._now(), monotonic())) > 0:
                    self._change.wait(left)
                if self._closed:
                    return
                stage, load = self._stage, self._load
                self._asked, self._given = True, (0, PairState(0, ()))
                self._change.notify_all()
                while not self._closed and self._asked:
                    self._change.wait(0.5)
                (given, state), now = self._given, self._now()
            if given != load or stage is None or stage is not self._stage:
                continue
            time, began = monotonic(), thread_time()
            try:
                frame = make_frame(stage, state)
            except Exception as error:
                self._fail(error)
                continue
            shown = now._replace(step=state.step)
            facts = {"playing": now.playing, "told": now.told, "rate": round(self._rate, 1)}
            self.messages.publish("frame", {"load": load, **frame, **facts})
            pace.spend(thread_time() - began, time)

    def _now(self) -> Moment:
        ended = self._pair is not None and self._pair.finished
        return Moment(self._load, self._playing and not ended, self._told, self.step)
