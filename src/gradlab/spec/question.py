"""The interface of every study: a question, conditions to compare, claims, published numbers.

A `Study` declares Gradlab networks, and a `CodeStudy` declares users' training code. The rooms to the right (results,
statistics, verdicts, reports) use only this interface.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from gradlab.spec.claims import Claim
    from gradlab.spec.config import Target
    from gradlab.spec.published import Published
    from gradlab.spec.study import Answers, Headline, Level


@dataclass(frozen=True)
class Condition:
    """One arm or grid point: its name and settings."""

    name: str
    settings: Mapping[str, Any]


class Question(Protocol):
    """A study, as seen by the analysis of its results."""

    @property
    def name(self) -> str:
        """Name of the study and of its folder."""

    @property
    def question(self) -> str:
        """The question, in the author's words."""

    @property
    def source(self) -> str | None:
        """The write-up whose claim this is."""

    @property
    def factor(self) -> tuple[str, ...]:
        """The settings in which the conditions may differ."""

    @property
    def arms(self) -> Mapping[str, Any] | None:
        """Named conditions; None if they are points of a grid."""

    @property
    def trial_seeds(self) -> tuple[int, ...]:
        """The seeds that every condition is trained with."""

    @property
    def seed(self) -> int:
        """The root seed."""

    @property
    def target(self) -> Target | None:
        """A metric value; the time to reach it is recorded."""

    @property
    def headline(self) -> Headline | None:
        """The metric that answers the question."""

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The claims to judge."""

    @property
    def answers(self) -> Answers | None:
        """The claims that answer the question."""

    @property
    def sequel(self) -> str | None:
        """The study that separates what this one cannot."""

    @property
    def changed(self) -> tuple[str, ...]:
        """What was overridden of the set-up in the study's file."""

    @property
    def published(self) -> tuple[Published, ...]:
        """Published numbers to show beside the measured ones."""

    @property
    def levels(self) -> tuple[Level, ...]:
        """Reference values of metrics."""

    @property
    def other_data(self) -> str | None:
        """The data set, if the claims were published for another one."""

    @property
    def figures(self) -> tuple[str, ...] | None:
        """Figures of the report; None: all that apply."""

    @property
    def labels(self) -> Mapping[str, str]:
        """Names for people, of levels (`skip=none`) and of arms."""

    @property
    def watched(self) -> bool:
        """Whether the user ran the training and it was only watched."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """Notes for the reader, shown before anything else."""
