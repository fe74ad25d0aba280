"""A page's session: its two networks, trained in one thread, looked at in another; and all sessions of a server."""

from __future__ import annotations

import ctypes
import gc
import json
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from time import monotonic, perf_counter, thread_time
from typing import Any, NamedTuple

import numpy as np

from gradlab.errors import GradlabError, InvalidInput, described
from gradlab.plans.plan import Plan
from gradlab.web.frames import Stage, audit_page, predict_layers
from gradlab.web.pair import Pair, PairState
from gradlab.web.settings import FRAMES_PER_SECOND, PAGES, TRAINING, Refused, Settings, call_setting, plan_settings
from gradlab.web.uploads import Uploads
from gradlab.words import join

# What a session has to say: of every kind of message only the newest, and whoever wants to be woken by it.
#
# A page that is slow misses messages and is never behind.


class Messages:
    """Every method may be called from any thread."""

    def __init__(self, change: threading.Condition) -> None:
        self._change = change
        self.newest: dict[str, tuple[int, bytes]] = {}
        """Kind -> (number, message): `stage`, `audit`, `theory`, `fault`, `frame`."""
        self._number = 0
        self._wakes: list[Callable[[], None]] = []

    def publish(self, kind: str, tree: dict[str, Any]) -> None:
        """Replace the message of this kind, and wake everybody who listens."""
        content = json.dumps(tree, separators=(",", ":"), allow_nan=False).encode()
        with self._change:
            self._number += 1
            self.newest[kind] = (self._number, content)
            wakes = list(self._wakes)
        for wake in wakes:
            wake()

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` after every new message; the function that is returned ends it."""
        with self._change:
            self._wakes.append(wake)
            self._change.notify_all()

        def leave() -> None:
            with self._change:
                self._wakes.remove(wake)

        return leave

    @property
    def listeners(self) -> int:
        """How many pages listen."""
        return len(self._wakes)


# When the next frame is due: at most so many a second, and for a small share of what the training itself gets.
#
# The share is one of processor time, not of the clock: where other programs starve the training, frames become rarer
# too.

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


# A session: the two networks of one page. One thread trains, another one looks and writes frames.
#
# The training thread owns the networks; it hands a copy of their state to the other when that asks for one.

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
        stage = Stage(order.settings, order.plan, pair.setups)
        self.messages.publish("stage", {"load": load, "said": order.said, **stage.describe()})
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
                frame = stage.frame(state)
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


# All sessions of a server: made, found, limited, and ended when their page is gone.

GONE = "this page's networks are gone: the server was restarted, or the page was away for too long"


class Sessions:
    """Every method may be called from any thread."""

    def __init__(self) -> None:
        self.uploads = Uploads()
        self._auditor = ThreadPoolExecutor(2, "gradlab-lab-audit")
        self._known: dict[str, Session] = {}
        self._lock = threading.RLock()
        self.connected = 0
        """Pages with an open stream; counted by the streams themselves, in the server's own thread."""

    def open(self, settings: Settings, *, playing: bool = False, at: int = 0, speed: float | None = None) -> Session:
        """A new session that trains these settings, up to step `at` at once."""
        plan = plan_settings(settings, self.uploads, self._bytes())
        with self._lock:
            if len(self._known) >= PAGES:
                raise Refused(f"{PAGES} pages are open already; close one of them, then reload this one")
            session = Session(secrets.token_urlsafe(12), self._auditor)
            self._known[session.id] = session
        session.set_speed(speed)
        with self._lock:  # two pages that come at once are counted one after the other
            if (playing or at) and self._training_besides(session) >= TRAINING:
                playing, at = False, 0
            session.begin(Order(settings, plan, playing, min(at, settings.steps)))
        return session

    def get(self, identity: str) -> Session:
        """The session of a page."""
        session = self._known.get(identity)
        if session is None:
            raise InvalidInput(GONE)
        return session

    def change(self, session: Session, settings: Settings) -> dict[str, Any]:
        """Train other settings; say whether that restarts or continues."""
        plan = plan_settings(settings, self.uploads, self._bytes(session))
        before, (playing, step) = session.order, session.aim
        forward, said = 0, "Restarted from new initial weights."
        if before is not None:
            forward, said = _compare(before.settings, settings, step)
        load = session.begin(Order(settings, plan, playing, forward, said))
        return {"load": load, "said": said}

    def rewind(self, session: Session) -> dict[str, Any]:
        """The same networks again, at their initial weights."""
        order = session.order
        if order is None:
            raise InvalidInput(GONE)
        said = "Rewound: the same initial weights and the same batches again."
        return {"load": session.begin(Order(order.settings, order.plan, False, 0, said)), "said": said}

    def play(self, session: Session) -> None:
        """Let a session train, unless too many others do."""
        with self._lock:
            if self._training_besides(session) >= TRAINING:
                raise Refused(f"{TRAINING} pages are training already; pause one of them, then play here")
            session.play()

    def _training_besides(self, session: Session) -> int:
        with self._lock:
            others = [other for other in self._known.values() if other is not session]
        return sum(other.training for other in others)

    def _bytes(self, besides: Session | None = None) -> int:
        with self._lock:
            orders = [other.order for other in self._known.values() if other is not besides]
        return sum(planned.cost.bytes for order in orders if order is not None for planned in order.plan.groups)

    def check_room(self) -> None:
        """Refuse a stream that is one too many."""
        if self.connected >= PAGES:
            raise Refused(f"{PAGES} pages are connected already; close one of them, then reload this one")

    def close_unwatched(self, identity: str) -> None:
        """End a session if no page listens to it any more."""
        session = self._known.get(identity)
        if session is not None and session.messages.listeners == 0:
            self.close(identity)

    def close(self, identity: str) -> None:
        """End a session."""
        with self._lock:
            session = self._known.pop(identity, None)
        if session is not None:
            session.close()
            with suppress(RuntimeError):  # everything is ending
                self._auditor.submit(_give_back, session)

    def close_all(self) -> None:
        """End everything, and remove uploaded files."""
        for identity in list(self._known):
            self.close(identity)
        self._auditor.shutdown(wait=False, cancel_futures=True)
        self.uploads.remove_all()

    def __len__(self) -> int:
        return len(self._known)


def _give_back(session: Session) -> None:
    """Wait for the threads of a page that is gone, and give its memory back to the system.

    Networks are freed with their session, but the C library keeps freed memory for the thread that had asked for it,
    and these threads have ended: 25 pages would leave some 150 MB.
    """
    session.join(10)
    gc.collect()
    with suppress(OSError, AttributeError):  # only the C library of GNU has it
        ctypes.CDLL(None).malloc_trim(0)


def _compare(before: Settings, now: Settings, step: int) -> tuple[int, str]:
    """The step up to which the new networks are trained at once, and what to say."""
    same = before.model_dump(exclude={"steps", "factor"}) == now.model_dump(exclude={"steps", "factor"})
    if same:  # with a fixed rate the first steps do not depend on the budget
        if before.steps == now.steps:
            return min(step, now.steps), "Continues: only what is compared has changed."
        return min(step, now.steps), f"Continues with a budget of {now.steps:,} steps; what was trained is kept."
    changed = [f"the {name}" for name in ("task", "seed") if getattr(before, name) != getattr(now, name)]
    changed += ["the file"] if before.task == now.task and before.upload != now.upload else []
    for word, old, new in (("A", before.a, now.a), ("B", before.b, now.b)):
        names = [name for name in type(old).model_fields if getattr(old, name) != getattr(new, name)]
        changed += [f"the {call_setting(name)} of {word}" for name in names]
    return 0, f"Restarted: {join(changed)} changed."
