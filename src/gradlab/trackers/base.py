"""The base class of trackers. A tracker writes trials, groups and the study in the format of another tool."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

from gradlab.parts import Part
from gradlab.runs.executors.base import require_extra
from gradlab.trackers.records import GroupRecord, StudyRecord, TrialRecord


class Session(ABC):
    """What a tracker has open while a run is written to it.

    Every method is called with records that may already be there; `digest` tells whether they are the same. It returns
    whether it wrote anything, so writing the same run twice changes nothing.
    """

    @abstractmethod
    def keep_trial(self, trial: TrialRecord) -> bool:
        """Write a trial: parameters, metrics, curves and layer measures."""

    @abstractmethod
    def keep_group(self, group: GroupRecord) -> bool:
        """Write what a group's seeds have in common: mean, low and high of every curve."""

    @abstractmethod
    def keep_study(self, study: StudyRecord) -> bool:
        """Write the answer, the verdicts and the report."""

    def close(self) -> None:  # noqa: B027 - most have nothing open
        """Finish what is open."""


class Tracker(Part):
    """Writes runs for another tool. To write one, name the package that it needs and implement `open`."""

    part: ClassVar[str] = "tracker"
    package: ClassVar[str] = ""
    """The package to import; empty if it needs none."""
    extra: ClassVar[str] = ""
    """The extra of Gradlab that installs it."""
    hint: ClassVar[str] = ""
    """The command that shows the result; {place} is the folder."""

    @abstractmethod
    def open(self, place: Path, study: str) -> Session:
        """Open the folder that the tool reads, new or with earlier exports in it, for a study of this name."""

    def view(self, place: Path) -> str:
        """The command that shows what is in a folder."""
        return self.hint.format(place=place)

    def require(self) -> Any:
        """Return the package, or raise an error that names the command that installs it."""
        return require_extra(self.package, self.extra, f"the tracker {self.name}") if self.package else None
