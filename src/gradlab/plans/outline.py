"""The interface of a plan for the rooms to its right: the groups, their trials, and what is known beforehand.

The plan of a `Study` knows everything. For users' code, only names, settings and hashes are known; the results provide
the rest.
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
        """Its name and settings."""

    @property
    def id(self) -> str:
        """Hash of everything but the seed that determines its results."""

    @property
    def content(self) -> str:
        """The same without the numerics."""

    @property
    def numerics(self) -> str:
        """What the bits of its trials depend on besides their content."""

    @property
    def engine(self) -> str:
        """The engine that trains it."""

    @property
    def stated(self) -> str:
        """What was inferred from the data, in words."""

    @property
    def classes(self) -> int | None:
        """Number of classes; None for a regression."""

    @property
    def config(self) -> Config | None:
        """Configuration of a Gradlab network; None for user code."""

    @property
    def cost(self) -> Cost | None:
        """Cost of one trial; None if it is unknown before running."""

    @property
    def rough_seconds(self) -> float:
        """A rough estimate of the time of a trial."""


class Outline(Protocol):
    """A plan of either kind of study."""

    @property
    def study(self) -> Question:
        """The study."""

    @property
    def groups(self) -> Sequence[Entry]:
        """In the study's order."""

    @property
    def trials(self) -> Sequence[TrialLabel]:
        """Seed by seed, so that groups stay paired if a run is interrupted."""

    @property
    def all_trials(self) -> Sequence[TrialLabel]:
        """The trials of every phase: those of a tuning too, which enter no verdict."""

    @property
    def catalog(self) -> Catalog:
        """The parts, for figures and names."""

    @property
    def quick(self) -> bool:
        """Whether the budget is reduced."""

    @property
    def announcements(self) -> Sequence[str]:
        """Notices for the user before the first trial, such as a compilation that takes a while."""

    @property
    def own_code(self) -> bool:
        """Whether the trials call user code."""
