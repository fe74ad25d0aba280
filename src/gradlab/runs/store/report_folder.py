"""The files of a run's folder that are not results: their names, and how they are written."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, RootModel, ValidationError

from gradlab.errors import StoreError
from gradlab.runs.store.files import sealed, write_bytes
from gradlab.spec.messages import first_problem

PLAN, ENVIRONMENT = "plan.json", "environment.json"
AUDIT, MICROWORLD, LAYER_NAMES = "audit.json", "microworld.json", "layers.json"
"""Files that are read back; each holds its checksum (sealed.py)."""


class _SavedNames(RootModel[dict[str, list[str]]]):
    """What `layers.json` holds."""

    model_config = ConfigDict(strict=True)


def checked_names(tree: Mapping[str, Any]) -> dict[str, Sequence[str]]:
    """Group id -> the names of its layers; a `ValueError` where it is something else."""
    try:
        return {**_SavedNames.model_validate(tree).root}
    except ValidationError as error:
        where, message = first_problem(error, tree)
        raise ValueError(f"{where}: {message}") from None


@dataclass
class ReportFolder:
    """A run's folder as the place of its report, which can be made again from the results at any time."""

    path: Path
    written: dict[str, str] = field(default_factory=dict, kw_only=True)
    """SHA-256 of every file for readers that was written by this object, by name; sealed files hold their own."""

    def write_sealed(self, name: str, value: Mapping[str, Any], *, indent: int | None = 1) -> Path:
        """An object that is read back later, with its checksum."""
        return self._write(name, sealed(value, indent))

    def keep_microworld(self, recording: Mapping[str, Any]) -> None:
        """Keep what happened inside two arms, as plain data."""
        self.write_sealed(MICROWORLD, recording, indent=None)

    def write_text(self, name: str, text: str) -> Path:
        """A text file such as the report."""
        return self.write_file(name, text.encode())

    def write_file(self, name: str, content: bytes) -> Path:
        """Any file, such as a figure."""
        place = self._write(name, content)
        self.written[name] = sha256(content).hexdigest()
        return place

    def _write(self, name: str, content: bytes) -> Path:
        self._require_inside(name)
        write_bytes(self.path / name, content)
        return self.path / name

    def _require_inside(self, name: str) -> None:
        """Refuse a folder in the run's folder that is a link to somewhere else."""
        folder = (self.path / name).parent
        if not folder.resolve().is_relative_to(self.path.resolve()):
            raise StoreError(f"{folder} leads out of the run's folder; remove the link and try again")

    def clear_figures(self, names: Iterable[str], keep: Collection[str] = ()) -> None:
        """Remove the figures of an earlier report, by name: other files in the folder are not ours."""
        files = [f"{name}.{kind}" for name in names for kind in ("png", "svg", "pdf", "csv")]
        self._require_inside("figures/any")
        try:
            for file in files:
                if file not in keep:
                    (self.path / "figures" / file).unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"cannot clear {self.path / 'figures'}: {error.strerror or error}") from None
