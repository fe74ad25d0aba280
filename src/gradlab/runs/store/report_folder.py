"""The files of a run's folder that are not results: their names, and how they are written."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradlab.errors import StoreError
from gradlab.runs.store.atomic import write_bytes
from gradlab.runs.store.sealed import sealed

PLAN, ENVIRONMENT = "plan.json", "environment.json"
AUDIT, MICROWORLD, LAYER_NAMES = "audit.json", "microworld.json", "layers.json"
"""Files that are read back; each holds its checksum (sealed.py)."""


@dataclass
class ReportFolder:
    """A run's folder as the place of its report, which can be made again from the results at any time."""

    path: Path

    def write_sealed(self, name: str, value: Mapping[str, Any], *, indent: int | None = 1) -> Path:
        """An object that is read back later, with its checksum."""
        return self.write_file(name, sealed(value, indent))

    def keep_microworld(self, recording: Mapping[str, Any]) -> None:
        """Keep what happened inside two arms, as plain data."""
        self.write_sealed(MICROWORLD, recording, indent=None)

    def write_text(self, name: str, text: str) -> Path:
        """A text file such as the report."""
        return self.write_file(name, text.encode())

    def write_file(self, name: str, content: bytes) -> Path:
        """Any file, such as a figure."""
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
