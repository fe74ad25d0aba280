"""What every study is, whoever trains its arms: a question, conditions to be compared, claims, published numbers.

The lab's own networks are declared by a `Study`; training code that somebody has written is a `CodeStudy`. Whatever
lies to the right (results, statistics, verdicts, reports) asks for no more than this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from gradlab.spec.claims import Claim
    from gradlab.spec.config import Target
    from gradlab.spec.study import Headline, Level, Published


@dataclass(frozen=True)
class Condition:
    """One arm or grid point: what it is called, and how it differs."""

    name: str
    settings: Mapping[str, Any]


class Question(Protocol):
    """What results are held against."""

    @property
    def name(self) -> str:
        """Of the study, and of its folder."""

    @property
    def question(self) -> str:
        """In the asker's words."""

    @property
    def source(self) -> str | None:
        """The write-up whose claim this is."""

    @property
    def factor(self) -> tuple[str, ...]:
        """In what the conditions are allowed to differ."""

    @property
    def arms(self) -> Mapping[str, Any] | None:
        """Conditions that have names of their own; None where they are points of a grid."""

    @property
    def trial_seeds(self) -> tuple[int, ...]:
        """The seeds that every condition is trained with."""

    @property
    def seed(self) -> int:
        """The root seed."""

    @property
    def target(self) -> Target | None:
        """A value of a metric whose reaching is timed."""

    @property
    def headline(self) -> Headline | None:
        """The number that answers the question."""

    @property
    def claims(self) -> tuple[Claim, ...]:
        """To be judged."""

    @property
    def published(self) -> tuple[Published, ...]:
        """To stand beside what is measured."""

    @property
    def levels(self) -> tuple[Level, ...]:
        """Values that mean something."""

    @property
    def other_data(self) -> str | None:
        """The data, where the claims were published on others."""

    @property
    def figures(self) -> tuple[str, ...] | None:
        """Of the report; None: all that apply."""

    @property
    def watched(self) -> bool:
        """Whether somebody else ran the training, and the lab only looked on."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the reader has to know before all else."""
