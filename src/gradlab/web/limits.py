"""What the lab allows at once, and the sentences with which it refuses more."""

from __future__ import annotations

from gradlab.errors import GradlabError
from gradlab.plans.plan import Plan

PAGES = 20
"""Pages that may be connected."""
TRAINING = 2
"""Pages that may train at the same time, two networks each."""
PARAMETERS = 2_000_000
"""Parameters of one network."""
BYTES = 4 * 2**30
"""Memory of the networks of all pages, as the plan estimates it."""
FRAMES_PER_SECOND = 20
BODY = 100_000
"""Bytes of a request, an upload aside."""
UPLOAD, UNPACKED = 8 * 2**20, 64 * 2**20
"""Bytes of an uploaded file, and of what an archive unpacks to."""
SAMPLES, COLUMNS = 200_000, 2_000
RUNNING = 4
"""Runs that may be started from the page and be going on at the same time."""


class Refused(GradlabError):
    """More than the lab allows at once; the message says what to do."""


def check_plan(plan: Plan, others: int) -> None:
    """Refuse networks that are too large; `others` are the bytes that other pages use."""
    for planned in plan.groups:
        found = planned.cost.parameters
        if found > PARAMETERS:
            raise Refused(
                f"network {planned.group.name} would have {found:,} parameters, and the page trains at most "
                f"{PARAMETERS:,}; make it narrower or shallower, or save it as a study for `gradlab run`"
            )
    own = sum(planned.cost.bytes for planned in plan.groups)
    if own + others > BYTES:
        raise Refused(
            f"these networks need about {own / 2**30:.1f} GiB, and {max(BYTES - others, 0) / 2**30:.1f} GiB are left "
            "for them; make them smaller, or close another page of the lab"
        )
