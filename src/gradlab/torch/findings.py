"""What a diagnosis says: findings with their evidence, notes, and what to do next where all is quiet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gradlab.torch.overfitting import Overfit

NOTHING_SEEN = "Nothing was seen: no forward pass of this model ran while the probe looked."
QUIET = "This pass shows nothing wrong. Next: can it learn one batch by heart? diagnose(overfit=(x, y), loss=loss_fn)"
QUIET_AND_ABLE = "This pass shows nothing wrong."


@dataclass(frozen=True)
class Finding:
    """One problem."""

    name: str
    where: str
    evidence: str
    helps: str
    when: str = ""
    """At which of the probed steps, if several were probed."""

    def __str__(self) -> str:
        end = "" if self.helps.endswith("?") else "."
        when = f", {self.when}" if self.when else ""
        return f"{self.name} ({self.where}{when}): {self.evidence}. What usually helps: {self.helps}{end}"

    def at(self, when: str) -> Finding:
        """The same, with the steps at which it was found."""
        return replace(self, when=when)


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
    quiet: str = QUIET
    """What is said if nothing was found."""

    @property
    def healthy(self) -> bool:
        """Whether nothing was found, and at least one forward pass was recorded."""
        return not self.found and NOTHING_SEEN not in self.notes

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the findings."""
        return tuple(finding.name for finding in self.found)

    def __str__(self) -> str:
        tried = self.overfit is not None
        quiet = [] if NOTHING_SEEN in self.notes else [QUIET_AND_ABLE if tried else self.quiet]
        lines = [*([*map(str, self.found)] or quiet)]
        lines += [f"Note: {note}" for note in self.noted]
        lines += self.notes
        if self.overfit is not None and self.overfit.ok:
            lines.append(f"One batch can be learned by heart: {self.overfit.words}.")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from html import escape

        return "".join(f"<p>{escape(line)}</p>" for line in str(self).splitlines())


def join_names(names: Sequence[str], most: int = 4) -> str:
    """Return the first names, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
