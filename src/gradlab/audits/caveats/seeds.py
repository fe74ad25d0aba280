"""Too few seeds to know the spread."""

from __future__ import annotations

from collections.abc import Iterator

from gradlab.audits.caveats.base import Caveat, Design, Remark


class Seeds(Caveat):
    """One seed: no spread, no interval, no verdict."""

    name = "seeds"
    rank = 60

    def remarks(self, design: Design) -> Iterator[Remark]:
        """Only for a single seed; with a few, the verdicts say what they cannot settle."""
        if len(design.plan.resolved.study.trial_seeds) == 1:
            yield Remark(
                self.name,
                "One seed: a difference cannot be told from luck. Run at least 3.",
                short="one seed: a difference may be luck",
            )
