"""A verdict on a claim, in words and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any, Literal

from gradlab.spec.claims import Claim, list_stated
from gradlab.spec.naming import name_setting
from gradlab.spec.paths import label
from gradlab.spec.selection import chosen
from gradlab.words import bracket, counted, join, rounded

if TYPE_CHECKING:
    from gradlab.analysis.claims.numbers import Comparison
    from gradlab.analysis.claims.reading import Reading
    from gradlab.analysis.measured import Measured
    from gradlab.plans.tuning import TuningPlan

Outcome = Literal["reproduced", "direction only", "not reproduced", "no difference", "not settled", "not tested"]
OWN: dict[str, str] = {
    "reproduced": "holds",
    "direction only": "holds in direction",
    "not reproduced": "does not hold",
}
NO_DIFFERENCE = "no difference that matters"
"""The words for a statement that no write-up made, or that was published for other data: there is nothing to
reproduce."""
SHOWN = 3
"""Readings that a line names before it says how many more there are."""


@dataclass(frozen=True, repr=False)
class Verdict:
    """What became of a claim."""

    claim: Claim
    outcome: Outcome
    reason: str
    """One sentence: why."""
    codes: tuple[str, ...] = ()
    """The same for programs: what left it open, or limits it."""
    rule: str = ""
    """The rule that decided."""
    assumes: str = ""
    """What the rule needs to be valid."""
    p: float | None = None
    """Two-sided, of the outcome that is best supported."""
    level: float | None = None
    """What p had to be at most, after Holm over the study's claims."""
    readings: tuple[Reading, ...] = ()
    groups: tuple[str, ...] = ()
    """The groups whose further seeds would settle it."""
    needs: int | None = None
    """The fewest more seeds that would settle it; None: it is settled, or nobody can say."""
    needs_most: int | None = None
    """The most that the numbers make likely; None: no number up to 10,000."""
    figure: str | None = None
    """The figure that shows it."""
    other_data: str | None = None
    changed: bool = False
    """Whether the set-up is not the published one, so that there is nothing to reproduce."""
    numbers: tuple[Comparison, ...] = ()
    """The published numbers that belong to the sentence, each judged apart from it."""

    @property
    def words(self) -> str:
        """The outcome in words; a write-up's claim is reproduced, any other statement holds."""
        if self.outcome in OWN and (self.claim.origin is None or self.other_data or self.changed):
            return OWN[self.outcome] + (f" on {self.other_data}" if self.other_data else "")
        if self.outcome == "not settled" and self.needs:
            return f"not settled (needs {self.more})"
        return NO_DIFFERENCE if self.outcome == "no difference" else self.outcome

    @property
    def more(self) -> str:
        """How many more seeds would settle it, in words."""
        if self.needs_most is None:
            return f"at least {counted(self.needs or 0, 'more seed')}"
        if self.needs_most == self.needs:
            return counted(self.needs, "more seed")
        return f"{self.needs:,} to {self.needs_most:,} more seeds"

    @property
    def failed(self) -> bool:
        """Whether `--check` takes it for a failure: tested, and not reproduced."""
        return self.outcome not in ("reproduced", "not tested")

    @property
    def published(self) -> str:
        """The published number as printed."""
        return ", ".join(stated.text for stated in list_stated(self.claim.published)) or "–"

    @property
    def number(self) -> str:
        """Whether the published number is what a new seed of ours could give; `–` if there is none."""
        if not self.numbers:
            return "–"
        outcomes = [row.outcome for row in self.numbers]
        if len(set(outcomes)) == 1:
            return outcomes[0]
        return f"{outcomes.count('consistent')} of {len(outcomes)} consistent"

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

    @property
    def short(self) -> str:
        """The first number that the verdict rests on, with its interval; empty if there is none."""
        return told(self.readings[0], alone=len(self.readings) == 1) if self.readings else ""

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
            "codes": list(self.codes),
            "rule": self.rule or None,
            "assumes": self.assumes or None,
            "p": self.p,
            "level": self.level,
            "needs_more_seeds": self.needs,
            "needs_more_seeds_at_most": self.needs_most,
            "from": self.claim.origin,
            "published": self.claim.published,
            "published_numbers": [row.to_json() for row in self.numbers],
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
        unknown = f", {reading.unknown} without a number" if reading.unknown else ""
        return f"{name}{e.count} of {e.n} [{low:.0f}, {high:.0f}] %{unknown}"
    times = "×" if reading.ratio else ""
    text = f"{name}{rounded(e.value)}{times}"
    if e.low is not None and e.high is not None and not e.bounded:
        text += f" {bracket(e.low, e.high)}"
    return text + _aside(reading)


def _aside(reading: Reading) -> str:
    """What is not a plain number, counted."""
    zeros = counted(reading.zeros, "exact zero") if reading.zeros else ""
    diverged = f"{reading.diverged} diverged" if reading.diverged else ""
    unknown = f"{reading.unknown} without a number" if reading.unknown else ""
    return "".join(f", {words}" for words in (zeros, diverged, unknown) if words)


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
        "diverged": reading.diverged,
        "unknown": reading.unknown,
        "permutation_p": reading.permutation,
        "bootstrap": reading.bootstrap,
    }


# Verdicts on tuned arms: one that rests on a value at the end of the range that was tried is not settled.


def leave_open_at_edges(measured: Measured, verdicts: Sequence[Verdict]) -> tuple[Verdict, ...]:
    """The verdicts; those that rest on an arm whose best value is at an edge are not settled, and say why."""
    plan = measured.plan
    tuning = plan.tuning
    if tuning is None or not tuning.edges:
        return tuple(verdicts)
    return tuple(_left_open(measured, verdict, tuning) for verdict in verdicts)


def _left_open(measured: Measured, verdict: Verdict, tuning: TuningPlan) -> Verdict:
    if verdict.outcome == "not tested":
        return verdict
    rows = chosen(verdict.claim, [planned.group for planned in measured.plan.groups])
    arms = [arm for arm in dict.fromkeys(name for row in rows for name in row) if arm in tuning.edges]
    if not arms:
        return verdict
    reason = "; ".join(describe_edge(tuning, arm) for arm in arms)
    seen = "" if verdict.outcome == "not settled" else f" At these values it is {verdict.outcome}:"
    return replace(
        verdict,
        outcome="not settled",
        reason=f"{reason}.{seen} {verdict.reason}",
        codes=("tuned_at_edge", *verdict.codes),
        needs=None,
        needs_most=None,
    )


def describe_edge(tuning: TuningPlan, arm: str) -> str:
    """`the best learning rate of plain (0.1) is the largest that was tried: a value beyond it may be better`."""
    assert tuning.chosen is not None
    words = []
    for path in tuning.edges[arm]:
        value = tuning.chosen[arm].values[path]
        tried = [candidate.values[path] for candidate in tuning.of(arm)]
        end = "smallest" if value == min(tried) else "largest"
        words.append(f"the best {name_setting(path)} of {arm} ({label(value)}) is the {end} that was tried")
    return f"{join(words)}: a value beyond it may be better"
