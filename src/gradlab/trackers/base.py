"""The base class of trackers, and what a tracker is given: trials, groups and a study as plain names and numbers.

A tracker writes them in the format of another tool. NaN, +inf and −inf are numbers as they are; what is missing is
absent.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gradlab.parts import Part
from gradlab.runs.executors.base import require_extra

Series = tuple[NDArray[np.int64], NDArray[np.float64]]
"""Steps and values."""
Settings = Mapping[str, Any]


@dataclass(frozen=True)
class TrialRecord:
    """One trial."""

    id: str
    group: str
    seed: int
    status: str
    """done, diverged or failed."""
    digest: str
    error: str | None
    settings: Settings
    """Every parameter by its path, such as `train.lr`."""
    metrics: Mapping[str, float]
    curves: Mapping[str, Series]
    layers: Mapping[str, Series]
    """`gradient_l2/layer 03` -> its values at the moments at which the layers were measured."""

    @property
    def series(self) -> dict[str, Series]:
        """Curves and layer measures under the names that trackers show."""
        return {**self.curves, **{f"layers/{name}": values for name, values in self.layers.items()}}


@dataclass(frozen=True)
class GroupRecord:
    """What the seeds of a group have in common."""

    id: str
    name: str
    seeds: int
    digest: str
    settings: Settings
    curves: Mapping[str, tuple[NDArray[np.int64], Mapping[str, NDArray[np.float64]]]]
    """Curve -> steps, and `mean`, `low`, `high` over seeds; NaN if a seed is."""
    metrics: Mapping[str, Mapping[str, float]]
    """Metric -> `mean`, `low`, `high`: the interval of the report."""


@dataclass(frozen=True)
class StudyRecord:
    """The study as a whole."""

    name: str
    question: str
    answer: str
    verdicts: tuple[Mapping[str, str], ...]
    """claim, outcome, reason."""
    digest: str
    report: str
    """Markdown."""
    files: tuple[Path, ...] = field(default=())
    """The report's files in the run folder."""


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
