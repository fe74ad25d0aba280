"""A visit: every check in order, cheap ones first; then the diagnosis in the order of causes."""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from gradlab.checks.check import STAGES, CannotTell, Cause, Check, Outcome, Verdict, all_checks
from gradlab.checks.examination import Examination
from gradlab.checks.training import Training
from gradlab.errors import StoreError, described
from gradlab.torch.views import as_picture

STYLE = (
    "<style>body{font:16px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
    "pre{white-space:pre-wrap;font:15px/1.5 ui-monospace,monospace}td,th{text-align:left;vertical-align:top;"
    "padding:.2em .8em .2em 0;border-bottom:1px solid #ddd}</style>"
)
ORDER = {"certain": 0, "likely": 1, "possible": 2}


@dataclass(frozen=True)
class Visit:
    """What the checks have found."""

    model: str
    outcomes: tuple[Outcome, ...]
    seconds: float
    curves: Mapping[str, Mapping[str, Sequence[float]]] = field(default_factory=dict)
    """What was measured by step: picture -> arm -> values."""

    @property
    def _all(self) -> list[Cause]:
        kept: dict[str, Cause] = {}
        for outcome in self.outcomes:
            for cause in outcome.causes:
                known = kept.get(cause.code)
                if known is None or (ORDER[cause.certainty], -len(cause.evidence)) < (
                    ORDER[known.certainty],
                    -len(known.evidence),
                ):
                    kept[cause.code] = cause
        return sorted(
            kept.values(), key=lambda c: (c.severity != "problem", c.symptom, STAGES.index(c.stage), ORDER[c.certainty])
        )

    @property
    def found(self) -> tuple[Cause, ...]:
        """The faults, in the order of causes; what faults do is told only if no fault was found."""
        problems = [cause for cause in self._all if cause.severity == "problem"]
        causes = [cause for cause in problems if not cause.symptom]
        explaining = [c for c in self._all if c.severity == "caution" and not c.symptom]
        failed = any(cause.symptom for cause in problems)
        return tuple(causes or (explaining if failed else ()) or problems)

    @property
    def symptoms(self) -> tuple[Cause, ...]:
        """What the faults do."""
        return tuple(c for c in self._all if c.severity == "problem" and c.symptom and c not in self.found)

    @property
    def noted(self) -> tuple[Cause, ...]:
        """What may be meant."""
        return tuple(cause for cause in self._all if cause.severity != "problem" and cause not in self.found)

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
        counts = {
            kind: sum(o.verdict == kind for o in self.outcomes)
            for kind in ("fine", "found", "cannot tell", "not checked")
        }
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
        # several checks may have found the same fault, so that more of them found something than faults are listed
        told = [f"{counts[kind]} {kind}{' something' * (kind == 'found')}" for kind in counts if counts[kind]]
        lines += wrap(f"{len(self.outcomes)} checks in {self.seconds:.0f} s: {', '.join(told)}.", then="  ")
        if self.open and not full:
            reasons: dict[str, list[str]] = {}
            for outcome in self.open:
                reasons.setdefault(outcome.says, []).append(outcome.code.replace("_", " "))
            text = "; ".join(f"{', '.join(codes)} ({why})" for why, codes in reasons.items())
            lines += wrap(f"Not known: {text}.", then="  ")
        return lines

    def figure(self) -> Any:
        """Draw the losses of the arms and the learning rate by step; None if no training was compared."""
        return draw_curves(self.curves)

    def save(self, path: str | Path) -> None:
        """Write the visit as one HTML page that needs nothing else."""
        figure = self.figure()
        rows = "".join(
            f"<tr><td>{escape(o.verdict)}</td><td>{escape(o.asks)}</td><td>{escape(o.says)}</td></tr>"
            for o in self.outcomes
        )
        parts = [f"<h1>{escape(self.model)}</h1>", f"<pre>{escape(str(self))}</pre>"]
        parts += [as_picture(figure)] if figure is not None else []
        parts.append(
            f"<h2>Every check</h2><table><tr><th>ended</th><th>question</th><th>number</th></tr>{rows}</table>"
        )
        head = f"<meta charset=utf-8><title>{escape(self.model)}</title>{STYLE}"
        page = f"<!doctype html><html lang=en>{head}{''.join(parts)}"
        try:
            Path(path).write_text(f"{page}</html>\n", encoding="utf8")
        except OSError as error:
            raise StoreError(f"{path}: {error.strerror or error}") from None

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
    at, start = Examination(training, seconds), perf_counter()
    outcomes: list[Outcome] = []
    with warnings.catch_warnings(), without_fast_path():
        warnings.simplefilter("ignore")
        for kind in all_checks():
            outcomes += [_make(kind(), at)] if not only or kind.code in only else []
    return Visit(type(training.model).__name__, tuple(outcomes), perf_counter() - start, at.curves)


def draw_curves(curves: Mapping[str, Mapping[str, Sequence[float]]]) -> Any:
    """Draw one panel for each picture."""
    shown = {name: arms for name, arms in curves.items() if any(len(values) > 1 for values in arms.values())}
    if not shown:
        return None
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.0 * len(shown), 3.2), layout="constrained")
    for place, (name, arms) in enumerate(shown.items(), 1):
        ax = figure.add_subplot(1, len(shown), place)
        for style, (arm, values) in zip(("-", "--", ":", "-."), arms.items(), strict=False):
            ax.plot(range(len(values)), values, style, label=arm)
        ax.set_xlabel("step")
        ax.set_ylabel(name)
        if all(value > 0 for values in arms.values() for value in values):
            ax.set_yscale("log")
        ax.legend(frameon=False)
    return figure


@contextmanager
def without_fast_path() -> Iterator[None]:
    """Let transformers run module by module: their fused path in eval mode calls no inner module."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


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
        return Outcome(
            check.code,
            "cannot tell",
            check.asks,
            f"it failed: {described(error)[:160]}",
            seconds=perf_counter() - start,
        )
    verdict: Verdict = "found" if any(c.severity == "problem" for c in causes) else "fine"
    return Outcome(check.code, verdict, check.asks, check.says, causes, perf_counter() - start)
