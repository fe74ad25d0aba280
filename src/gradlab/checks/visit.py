"""A visit: every check in order, cheap ones first; then the diagnosis in the order of causes."""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from time import perf_counter
from typing import Any

import torch

from gradlab.checks.check import STAGES, CannotTell, Cause, Check, Outcome, all_checks
from gradlab.checks.examination import Examination
from gradlab.checks.training import Training
from gradlab.errors import described

ORDER = {"certain": 0, "likely": 1, "possible": 2}


@dataclass(frozen=True)
class Visit:
    """What the checks have found."""

    model: str
    outcomes: tuple[Outcome, ...]
    seconds: float

    @property
    def _all(self) -> list[Cause]:
        kept: dict[str, Cause] = {}
        for outcome in self.outcomes:
            for cause in outcome.causes:
                known = kept.get(cause.code)
                if known is None or (ORDER[cause.certainty], -len(cause.evidence)) < (ORDER[known.certainty], -len(known.evidence)):
                    kept[cause.code] = cause
        return sorted(kept.values(), key=lambda c: (c.severity != "problem", c.symptom, STAGES.index(c.stage), ORDER[c.certainty]))

    @property
    def found(self) -> tuple[Cause, ...]:
        """The faults, in the order of causes; what faults do is told only if no fault was found."""
        problems = [cause for cause in self._all if cause.severity == "problem"]
        causes = [cause for cause in problems if not cause.symptom]
        return tuple(causes or problems)

    @property
    def symptoms(self) -> tuple[Cause, ...]:
        """What the faults do."""
        return tuple(c for c in self._all if c.severity == "problem" and c.symptom and c not in self.found)

    @property
    def noted(self) -> tuple[Cause, ...]:
        """What may be meant."""
        return tuple(cause for cause in self._all if cause.severity != "problem")

    @property
    def healthy(self) -> bool:
        """Whether nothing was found."""
        return not self.found

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of what was found."""
        return tuple(cause.code for cause in self.found)

    @property
    def open(self) -> tuple[Outcome, ...]:
        """Checks that could not tell, or were not made."""
        return tuple(outcome for outcome in self.outcomes if outcome.verdict in ("cannot tell", "not checked"))

    def to_json(self) -> dict[str, Any]:
        """As programs read it."""
        return {
            "model": self.model,
            "healthy": self.healthy,
            "diagnosis": [cause.to_json() for cause in self.found],
            "symptoms": [cause.to_json() for cause in self.symptoms],
            "noted": [cause.to_json() for cause in self.noted],
            "checks": [outcome.to_json() for outcome in self.outcomes],
            "seconds": round(self.seconds, 2),
        }

    def lines(self, width: int = 80, *, full: bool = False) -> list[str]:
        """Say it at a width."""

        def wrap(text: str, first: str = "", then: str = "   ") -> list[str]:
            return textwrap.wrap(text, width, initial_indent=first, subsequent_indent=then) or [""]

        lines: list[str] = []
        counts = {kind: sum(o.verdict == kind for o in self.outcomes) for kind in ("fine", "found", "cannot tell", "not checked")}
        if not self.found:
            lines += wrap("Nothing wrong was found.", then="")
        for number, cause in enumerate(self.found, 1):
            lines += wrap(f"{cause.title[0].upper()}{cause.title[1:]} ({cause.certainty}).", f"{number}. ")
            lines += wrap(f"{cause.evidence[0].upper()}{cause.evidence[1:]}.", "   ")
            if cause.experiment:
                lines += wrap(cause.experiment, "   ")
            end = "" if cause.helps.endswith("?") else "."
            lines += wrap(f"What to do: {cause.helps}{end}", "   ")
        for cause in self.symptoms:
            lines += wrap(f"What follows: {cause.title}: {cause.evidence}.", then="  ")
        for cause in self.noted:
            lines += wrap(f"Note: {cause.title}: {cause.evidence}.", then="  ")
        if full:
            lines += ["", *(line for outcome in self.outcomes for line in wrap(_in_words(outcome), "", "    "))]
        told = [f"{counts[kind]} {kind}" for kind in counts if counts[kind]]
        lines += wrap(f"{len(self.outcomes)} checks in {self.seconds:.0f} s: {', '.join(told)}.", then="  ")
        if self.open and not full:
            reasons: dict[str, list[str]] = {}
            for outcome in self.open:
                reasons.setdefault(outcome.says, []).append(outcome.code.replace("_", " "))
            text = "; ".join(f"{', '.join(codes)} ({why})" for why, codes in reasons.items())
            lines += wrap(f"Not known: {text}.", then="  ")
        return lines

    def __str__(self) -> str:
        return "\n".join(self.lines())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def _in_words(outcome: Outcome) -> str:
    says = f": {outcome.says}" if outcome.says else ""
    return f"{outcome.verdict:12}{outcome.asks} {says.removeprefix(': ')}".rstrip()


def visit(training: Training, seconds: float = 45.0, only: Sequence[str] = ()) -> Visit:
    """Make every check of a set-up, or only those named; nothing of it is changed."""
    at = Examination(training, seconds)
    outcomes = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in all_checks():
            if not only or kind.code in only:
                outcomes.append(_make(kind(), at))
    return Visit(type(training.model).__name__, tuple(outcomes), perf_counter() - at.began)


def _make(check: Check, at: Examination) -> Outcome:
    missing = [name for name in check.needs if getattr(at.training, name) is None]
    if missing:
        return Outcome(check.code, "not checked", check.asks, f"no {' and no '.join(missing)} was given")
    if check.cost == "training" and at.left < 0:
        return Outcome(check.code, "not checked", check.asks, f"the {at.seconds:.0f} seconds were over")
    start = perf_counter()
    try:
        with torch.enable_grad():
            causes = tuple(check.look(at))
    except CannotTell as reason:
        return Outcome(check.code, "cannot tell", check.asks, str(reason), seconds=perf_counter() - start)
    except Exception as error:  # of the check, or of the user's code under changed inputs: a check never breaks a visit
        return Outcome(check.code, "cannot tell", check.asks, f"it failed: {described(error)[:160]}", seconds=perf_counter() - start)
    verdict = "found" if any(c.severity == "problem" for c in causes) else "fine"
    return Outcome(check.code, verdict, check.asks, check.says, causes, perf_counter() - start)
