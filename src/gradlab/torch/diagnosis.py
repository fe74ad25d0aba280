"""Diagnose any network: apply the rules to a probe or to a watch, and compare the diagnoses of two probes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

import pandas as pd
import torch.distributed as dist

from gradlab.torch.rules import RULES, Curves, Finding, History, Nonfinite, Pass
from gradlab.torch.views import change_figure
from gradlab.words import listed

if TYPE_CHECKING:
    from gradlab.torch.overfit import Overfit
    from gradlab.torch.probe import ModuleProbe
    from gradlab.torch.watch import Moment

NOTHING_SEEN = "Nothing was seen: no forward pass of this model ran while the probe looked."
NO_BACKWARD = "No backward pass was seen: only activations are judged."
NO_ACTIVATIONS = "Activations could not be seen: gradients, updates and the loss are judged."
SHARDED = (
    "Parameters are sharded over processes (as under FSDP): gradients, sizes and updates of parameters are those of "
    "the shard that this process holds, not of the whole tensor."
)
LOCAL = (
    "Several processes train together: activations, the backprop signal and the loss are those of this process. "
    "Gradients are as they were after the backward pass: under DistributedDataParallel, their mean over processes."
)
NEXT = "Next: can it learn one batch by heart? diagnose(overfit=(x, y), loss=loss_fn)"
QUIET_PASS = "This pass shows nothing wrong."
QUIET_WATCH = "No probed step shows anything wrong."
MAX_ERROR_LENGTH = 160
"""Maximum length of an error message in a note."""


@dataclass(frozen=True)
class Findings:
    """All problems, the most severe first; empty if none was seen."""

    found: tuple[Finding, ...]
    overfit: Overfit | None = None
    """The result of overfitting one batch, if requested."""
    notes: tuple[str, ...] = ()
    """What could not be judged."""
    noted: tuple[Finding, ...] = ()
    """What may be meant (frozen parameters) or is a symptom without a cause (a loss that does not fall)."""
    quiet: str = f"{QUIET_PASS} {NEXT}"
    """What is said if nothing was found."""

    @property
    def all(self) -> tuple[Finding, ...]:
        """Problems and what is only noted."""
        return (*self.found, *self.noted)

    @property
    def healthy(self) -> bool:
        """Whether nothing was found, and at least one forward pass was recorded."""
        return not self.found and NOTHING_SEEN not in self.notes

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of the findings."""
        return tuple(finding.code for finding in self.found)

    def with_attempt(self, attempt: Overfit | None, model: Any) -> Findings:
        """Add what an attempt to overfit one batch has shown."""
        if attempt is None:
            return self
        added = [one for rule in RULES for one in rule.find_in_attempt(attempt, type(model).__name__)]
        return replace(self, found=(*self.found, *added), overfit=attempt)

    def to_json(self) -> dict[str, Any]:
        """Findings with codes, numbers and words; notes; the attempt to overfit."""
        return {
            "diagnosis": [finding.to_json() for finding in self.found],
            "noted": [finding.to_json() for finding in self.noted],
            "notes": list(self.notes),
            "overfit": None if self.overfit is None else {**vars(self.overfit), "ok": self.overfit.ok},
        }

    def __str__(self) -> str:
        quiet = [] if NOTHING_SEEN in self.notes else [self.quiet if self.overfit is None else QUIET_PASS]
        lines = [*map(str, self.found)] or quiet
        lines += [*(f"Note: {note}" for note in self.noted), *self.notes]
        if self.overfit is not None and self.overfit.ok:
            lines.append(f"One batch can be learned by heart: {self.overfit.words}.")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return _as_paragraphs(str(self))


def _as_paragraphs(text: str) -> str:
    return "".join(f"<p>{escape(line)}</p>" for line in text.splitlines())


def diagnose_probe(probe: ModuleProbe, attempt: Overfit | None = None) -> Findings:
    """Apply every rule to the numbers of a probe, and to the attempt to overfit, if there was one."""
    if not probe.saw_forward and not probe.saw_backward:
        return Findings((), notes=(NOTHING_SEEN, *_describe_skipped(probe))).with_attempt(attempt, probe.model)
    seen = Pass(probe)
    finite = not list(Nonfinite().find(seen))
    findings = [one for rule in RULES if finite or not rule.needs_finite for one in rule.find(seen)]
    notes = (*_describe_limits(probe), *_describe_skipped(probe))
    return _sort_out(findings, notes).with_attempt(attempt, probe.model)


def diagnose_history(moments: Sequence[Moment], curves: Curves) -> Findings:
    """Apply every rule to all probed steps of a watch and to its curves."""
    history = History(moments, curves)
    findings = [one for rule in RULES for one in rule.find_over(history)]
    limits = [note for moment in moments for note in _describe_limits(moment.probe)]
    latest = moments[-1].findings.notes if moments else ()
    return replace(_sort_out(findings, tuple(dict.fromkeys([*limits, *latest]))), quiet=f"{QUIET_WATCH} {NEXT}")


def _sort_out(findings: Sequence[Finding], notes: tuple[str, ...]) -> Findings:
    problems, noted = ([f for f in findings if (f.severity == "note") == is_note] for is_note in (False, True))
    return Findings(tuple(problems), None, notes, tuple(noted))


def thin_out(moments: Sequence[Moment]) -> list[Moment]:
    """Every second moment, the first and the last among them, and each that was the first to show a passing fault."""
    kept, seen, last = [], {rule.code for rule in RULES if not rule.passes}, len(moments) - 1
    for place, moment in enumerate(moments):
        codes = {one.code for one in moment.findings.all}
        if place % 2 == 0 or place == last or codes - seen:
            kept.append(moment)
        seen |= codes
    return kept


def _describe_limits(probe: ModuleProbe) -> Iterator[str]:
    """Say what was not there to be judged."""
    if not probe.saw_forward:
        yield NO_ACTIVATIONS
    if not probe.saw_backward:
        yield NO_BACKWARD
    if probe.sharded:
        yield SHARDED
    elif dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        yield LOCAL


def _describe_skipped(probe: ModuleProbe) -> Iterator[str]:
    if probe.skipped:
        why = next(iter(probe.skipped.values()))
        shown = why if len(why) < MAX_ERROR_LENGTH else why[:MAX_ERROR_LENGTH] + "…"
        yield f"Not looked into: {listed(probe.skipped)} ({shown})."


# ---------------------------------------------------------------------- before and after a fix


@dataclass(frozen=True)
class Change:
    """The effect of a fix: `after.against(before)`."""

    before: ModuleProbe
    after: ModuleProbe

    @cached_property
    def _findings(self) -> tuple[Findings, Findings]:
        return self.before.diagnose(), self.after.diagnose()

    @property
    def gone(self) -> tuple[Finding, ...]:
        """Findings of the first probe that the second does not have."""
        first, second = self._findings
        return tuple(finding for finding in first.found if finding.code not in second.codes)

    @property
    def new(self) -> tuple[Finding, ...]:
        """Findings of the second probe that the first does not have."""
        first, second = self._findings
        return tuple(finding for finding in second.found if finding.code not in first.codes)

    @property
    def still(self) -> tuple[Finding, ...]:
        """Findings that both probes have, as the second reports them."""
        first, second = self._findings
        return tuple(finding for finding in second.found if finding.code in first.codes)

    def table(self) -> pd.DataFrame:
        """One row per module: activations and backprop signal before and after. Modules are paired by name."""
        sides = {"before": self.before.modules, "after": self.after.modules}
        names = dict.fromkeys(name for modules in sides.values() for name in modules)
        columns = [(measure, side) for measure in ("rms", "delta", "dead") for side in sides]
        rows = [
            {"name": name, **{f"{m}_{side}": getattr(sides[side].get(name), m, None) for m, side in columns}}
            for name in names
        ]
        return pd.DataFrame(rows)

    def figure(self, ax: Any = None) -> Any:
        """The backprop signal by module, before and after."""
        return change_figure(self, ax)

    def to_json(self) -> dict[str, Any]:
        """Findings that are gone, new and still present, and the table."""
        parts = {"gone": self.gone, "new": self.new, "still": self.still}
        findings = {name: [finding.to_json() for finding in part] for name, part in parts.items()}
        return {**findings, "modules": self.table().to_dict("records")}

    def __str__(self) -> str:
        lines = [f"Gone: {finding.name} ({finding.where}): {finding.evidence}." for finding in self.gone]
        lines += [f"New: {finding}" for finding in self.new]
        lines += [f"Still: {finding}" for finding in self.still]
        first, second = (_describe_reach(probe) for probe in (self.before, self.after))
        lines.append(f"The backprop signal at the first module over that at the last: {first} before, {second} after.")
        nothing = "" if self.gone or self.new or self.still else "Nothing was wrong before, and nothing is now. "
        return nothing + "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return _as_paragraphs(str(self)) + str(self.table().to_html())


def _describe_reach(probe: ModuleProbe) -> str:
    """How far the backprop signal carries: first over last."""
    deltas = [seen.delta for seen in probe.modules.values() if seen.delta]
    return f"{deltas[0] / deltas[-1]:.2g}" if len(deltas) > 1 else "–"
