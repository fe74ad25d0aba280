"""What a check is. A subclass of `Check` in a file of this folder is a check; no list names it.

To write one: give it a `code`, the sentence that it asks, its stage, what it needs of the set-up, and its cost; write
`look`, which gets an `Examination` and yields findings. Nothing yielded means *fine*, with `self.fine(number)` as the
number that says so; `raise CannotTell(reason)` where it cannot be told.
"""

from __future__ import annotations

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from gradlab.facts import Fact

if TYPE_CHECKING:
    from gradlab.checks.examination import Examination

Certainty = Literal["certain", "likely", "possible"]
"""`certain`: something that must hold exactly does not. `likely`: an experiment with noise says so."""
Cost = Literal["a look", "passes", "training"]
Verdict = Literal["fine", "found", "cannot tell", "not checked"]
STAGES = ("data", "model", "loss", "loop", "rates", "training", "generalization")
"""In the order of time: what stands earlier may cause what stands later."""


class CannotTell(Exception):
    """A check has no answer, and why."""


@dataclass(frozen=True)
class Cause(Fact):
    """A finding of a check: what is wrong, what shows it, what to do."""

    stage: str = "model"
    certainty: Certainty = "certain"
    title: str = ""
    """The fault in a few words."""
    evidence: str = ""
    helps: str = ""
    symptom: bool = False
    """Whether it is what a fault does rather than the fault: it is told after the causes, or alone."""
    experiment: str = ""
    """What a controlled experiment with and without the suspect has shown."""

    def to_json(self) -> dict[str, Any]:
        """Code and numbers for programs, words for people."""
        return super().to_json()


@dataclass(frozen=True)
class Outcome:
    """How one check has ended."""

    code: str
    verdict: Verdict
    asks: str
    says: str = ""
    """The number, or the reason."""
    causes: tuple[Cause, ...] = ()
    seconds: float = field(default=0.0, compare=False)

    def to_json(self) -> dict[str, Any]:
        """As programs read it."""
        found = [cause.code for cause in self.causes]
        return {"check": self.code, "verdict": self.verdict, "asks": self.asks, "says": self.says, "found": found}


class Check(ABC):
    """One question that is put to a set-up."""

    code: ClassVar[str]
    asks: ClassVar[str]
    """The question, as a person would ask it."""
    stage: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()
    """Fields of the set-up without which it is not asked."""
    cost: ClassVar[Cost] = "passes"
    rank: ClassVar[int] = 50
    """Among checks of the same cost and stage, lower first."""

    def __init__(self) -> None:
        self.says = ""

    @abstractmethod
    def look(self, at: Examination) -> Iterable[Cause]:
        """Look for the problem; may raise `CannotTell`."""

    def fine(self, number: str) -> None:
        """Say the number that shows that all is well."""
        self.says = number

    def cause(
        self,
        title: str,
        evidence: str,
        helps: str,
        *,
        where: str = "",
        code: str = "",
        certainty: Certainty = "certain",
        symptom: bool = False,
        severity: Literal["problem", "caution", "note"] = "problem",
        **numbers: float,
    ) -> Cause:
        """Make a finding."""
        end = "" if helps.endswith("?") else "."
        words = f"{title}: {evidence}. What to do: {helps}{end}"
        return Cause(
            code or self.code, words, where, severity, numbers, self.stage, certainty, title, evidence, helps, symptom
        )


def with_experiment(cause: Cause, shown: str) -> Cause:
    """Add what a controlled experiment has shown."""
    return replace(cause, experiment=shown, words=f"{cause.words} {shown}")


@cache
def all_checks() -> tuple[type[Check], ...]:
    """Return every check of this folder, cheap ones first, then in the order of the stages."""
    package = importlib.import_module("gradlab.checks")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"gradlab.checks.{module.name}")
    costs = ("a look", "passes", "training")
    kinds = [kind for kind in _below(Check) if "code" in vars(kind)]
    return tuple(sorted(kinds, key=lambda k: (costs.index(k.cost), STAGES.index(k.stage), k.rank, k.code)))


def _below(kind: Any) -> Iterable[type[Check]]:
    for each in kind.__subclasses__():
        yield each
        yield from _below(each)
