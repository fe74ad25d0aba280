"""All sessions of a server: made, found, limited, and ended when their page is gone."""

from __future__ import annotations

import secrets
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from gradlab.errors import InvalidInput
from gradlab.web.limits import PAGES, TRAINING, Refused
from gradlab.web.planning import plan_settings
from gradlab.web.session import Order, Session
from gradlab.web.settings import Settings, call_setting
from gradlab.web.uploads import Uploads

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

    def close_all(self) -> None:
        """End everything, and remove uploaded files."""
        for identity in list(self._known):
            self.close(identity)
        self._auditor.shutdown(wait=False, cancel_futures=True)
        self.uploads.remove_all()

    def __len__(self) -> int:
        return len(self._known)


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
    words = changed[0] if len(changed) == 1 else f"{', '.join(changed[:-1])} and {changed[-1]}"
    return 0, f"Restarted: {words} changed."
