"""A plan as everything to its right sees it: who is compared, by which trials, and what is known of them beforehand.

The plan of a `Study` knows all; of code that somebody else has written the lab knows names, settings and hashes, and
learns the rest from what comes back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gradlab.parts import Catalog
from gradlab.plans.cost import Cost
from gradlab.spec.config import Config
from gradlab.spec.question import Condition, Question
from gradlab.trials.trial import TrialLabel


class Entry(Protocol):
    """One group of a plan."""

    @property
    def group(self) -> Condition:
        """Its name, and how it differs."""

    @property
    def id(self) -> str:
        """The hash of all that decides its results but the seed."""

    @property
    def content(self) -> str:
        """The same without the numerics."""

    @property
    def numerics(self) -> str:
        """What the bits of its trials depend on besides their content."""

    @property
    def engine(self) -> str:
        """Who trains it."""

    @property
    def stated(self) -> str:
        """What was inferred from the data, in words."""

    @property
    def classes(self) -> int | None:
        """Of a classification."""

    @property
    def config(self) -> Config | None:
        """Of a network of the lab; None of somebody's own code."""

    @property
    def cost(self) -> Cost | None:
        """Of one trial; None where only running it would tell."""

    @property
    def rough_seconds(self) -> float:
        """A guess at the time of a trial."""


class Outline(Protocol):
    """A plan, of whichever kind of study."""

    @property
    def study(self) -> Question:
        """Whose plan it is."""

    @property
    def groups(self) -> Sequence[Entry]:
        """In the study's order."""

    @property
    def trials(self) -> Sequence[TrialLabel]:
        """Seed by seed, so that groups stay paired if a run is cut short."""

    @property
    def catalog(self) -> Catalog:
        """The parts that figures and names are looked up in."""

    @property
    def quick(self) -> bool:
        """Whether the budget is reduced."""

    @property
    def announcements(self) -> Sequence[str]:
        """What to tell the user before the first trial, such as a compilation that takes a while."""

    @property
    def own_code(self) -> bool:
        """Whether the trials are calls of code that somebody else has written."""
