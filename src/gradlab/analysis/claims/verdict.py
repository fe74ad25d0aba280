"""A verdict on a claim, in words and numbers."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any, Literal

from gradlab.analysis.claims.tested import Reading
from gradlab.analysis.formatting import number
from gradlab.spec.claims import Claim

Outcome = Literal["reproduced", "direction only", "not reproduced", "not settled", "not tested"]
ELSEWHERE: dict[str, str] = {
    "reproduced": "holds on {}",
    "direction only": "holds in direction on {}",
    "not reproduced": "does not hold on {}",
}
SHOWN = 3
"""Readings that a line names before it says how many more there are."""


@dataclass(frozen=True, repr=False)
class Verdict:
    """What became of a claim."""

    claim: Claim
    outcome: Outcome
    reason: str
    """One sentence: why."""
    rule: str = ""
    """The rule that decided."""
    p: float | None = None
    """Two-sided, of the outcome that is best supported."""
    level: float | None = None
    """What p had to be at most, after Holm over the study's claims."""
    readings: tuple[Reading, ...] = ()
    needs: int | None = None
    """More seeds that would settle it; None: it is settled, or nobody can say."""
    figure: str | None = None
    """The figure that shows it."""
    other_data: str | None = None

    @property
    def words(self) -> str:
        """The outcome in words; claims published on other data hold or do not hold on ours."""
        if self.other_data and self.outcome in ELSEWHERE:
            return ELSEWHERE[self.outcome].format(self.other_data)
        if self.outcome == "not settled" and self.needs:
            return f"not settled (needs {self.needs:,} more seed{'s' * (self.needs > 1)})"
        return self.outcome

    @property
    def failed(self) -> bool:
        """Whether `--check` takes it for a failure: tested, and not reproduced."""
        return self.outcome not in ("reproduced", "not tested")

    @property
    def published(self) -> str:
        """The published number, or the claim's own bound."""
        value = self.claim.published
        if value is None:
            return "–"
        return ", ".join(number(each) for each in value) if isinstance(value, tuple) else number(value)

    @property
    def measured(self) -> str:
        """What was measured, with intervals and the number of seeds."""
        if not self.readings:
            return "–"
        shown = self.readings if len(self.readings) <= SHOWN + 1 else (*self.readings[:SHOWN], self.readings[-1])
        words = [told(reading, alone=len(self.readings) == 1) for reading in shown]
        if len(shown) < len(self.readings):
            words.insert(SHOWN, "…")
        seeds = {reading.estimate.n for reading in self.readings}
        return f"{'; '.join(words)} (n = {'–'.join(map(str, sorted({min(seeds), max(seeds)})))})"

    def __repr__(self) -> str:
        return f"<{self.words}: {self.claim.text}; {self.measured}>"

    def _repr_html_(self) -> str:
        """For notebooks."""
        claim, words, reason = escape(self.claim.text), escape(self.words), escape(self.reason)
        return f"<p>{claim}: <b>{words}</b>. {reason}; measured {escape(self.measured)}</p>"

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain data."""
        return {
            "text": self.claim.text,
            "verdict": self.outcome,
            "words": self.words,
            "reason": self.reason,
            "rule": self.rule or None,
            "p": self.p,
            "level": self.level,
            "needs_more_seeds": self.needs,
            "published": self.claim.published,
            "measured": self.measured,
            "numbers": [_reading_json(reading) for reading in self.readings],
            "figure": self.figure,
        }


def told(reading: Reading, *, alone: bool = False) -> str:
    """`residual .063 [.061, .065]`; a share as `9 of 10 [55, 100] %`."""
    e = reading.estimate
    name = "" if alone and not reading.end_to_end and not reading.ratio else f"{reading.label} "
    if e.what == "share":
        low, high = (100 * (bound or 0.0) for bound in (e.low, e.high))
        return f"{name}{e.count} of {e.n} [{low:.0f}, {high:.0f}] %"
    times = "×" if reading.ratio else ""
    text = f"{name}{'median ' if e.what == 'median' else ''}{number(e.value, 3)}{times}"
    if e.low is not None and e.high is not None:
        text += f" [{number(e.low, 3)}, {number(e.high, 3)}]"
    if reading.zeros:
        text += f", {reading.zeros} exact zero{'s' * (reading.zeros > 1)}"
    return text


def _reading_json(reading: Reading) -> dict[str, Any]:
    e = reading.estimate
    return {
        "of": reading.label,
        "what": ("ratio, " if reading.ratio else "") + e.what,
        "value": e.value,
        "low": e.low,
        "high": e.high,
        "n": e.n,
        "zeros": reading.zeros,
        "left_out": reading.left_out,
        "permutation_p": reading.permutation,
        "bootstrap": reading.bootstrap,
    }
