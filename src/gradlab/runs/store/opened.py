"""A run's folder opened for reading: every file is read and checked once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from gradlab.audits.audit import Audit
from gradlab.runs.store.environment import checked_environment
from gradlab.runs.store.report_folder import AUDIT, ENVIRONMENT, LAYER_NAMES, MICROWORLD
from gradlab.runs.store.sealed import UNSEALED, DamagedFile, read_sealed
from gradlab.runs.store.status import committed, plan_of

T = TypeVar("T")
_REMEDY = {
    AUDIT: "whether the comparison is fair is not known until the study is run again",
    MICROWORLD: "the micro-world is left out; `gradlab report RUN --seed N` makes it again",
    LAYER_NAMES: "layers are shown by their numbers",
    ENVIRONMENT: "versions and machine are not known",
}


class OpenedRun:
    """The plan, the results and the files beside them. A damaged file gets a note, and the rest is still shown."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.plan = plan_of(path)
        """The saved plan as plain data."""
        self.records, damaged = committed(path)
        self.notes = list(damaged)
        """A line for each chunk and file that is damaged, as far as it has been read."""

    @cached_property
    def environment(self) -> dict[str, Any]:
        """Versions and machine; empty if unknown."""
        return self.read(ENVIRONMENT, checked_environment) or {}

    @cached_property
    def audit(self) -> Audit | None:
        """Whether the comparison is fair; None if it was never audited."""
        return self.read(AUDIT, Audit.from_json)

    @cached_property
    def layer_names(self) -> Mapping[str, Any]:
        """Group id -> the names of its layers."""
        return self.read(LAYER_NAMES, dict) or {}

    def read(self, name: str, parse: Callable[[dict[str, Any]], T]) -> T | None:
        """A parsed file of the folder; None if it is missing or damaged."""
        try:
            found = read_sealed(self.path / name, required=self.plan["format"] > UNSEALED)
            return None if found is None else parse(found)
        except DamagedFile as error:
            self.notes.append(f"{error}; {_REMEDY[name]}")
        except (KeyError, TypeError, ValueError, AttributeError, IndexError):  # an old file, without a checksum
            self.notes.append(f"{self.path / name} is damaged; {_REMEDY[name]}")
        return None
