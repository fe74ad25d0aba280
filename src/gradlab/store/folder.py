"""A run's folder: the study as it was resolved, the environment, the tables, the report.

runs/identity/
  study.yaml  environment.json  trials.parquet  curves.parquet  layers.parquet  report.md  figures/
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradlab.errors import StoreError
from gradlab.execute.base import TrialResult
from gradlab.spec.canonical import plain_json
from gradlab.spec.files import to_yaml
from gradlab.spec.study import Study
from gradlab.store import tables
from gradlab.store.atomic import write_bytes

FORMAT = 1


@dataclass(frozen=True)
class RunFolder:
    """Where a run keeps what it found."""

    path: Path

    @staticmethod
    def open(path: Path) -> RunFolder:
        """Make the folder, or take one that is a run's or empty; never write among somebody's other files."""
        if path.is_dir() and any(path.iterdir()) and not (path / "environment.json").is_file():
            raise StoreError(f"{path} is not empty and not a run of gradlab; choose another folder with --out")
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot make the run's folder {path}: {error.strerror or error}") from None
        return RunFolder(path)

    def write_study(self, study: Study, environment: dict[str, Any]) -> None:
        """The study and the environment, before anything runs."""
        write_bytes(self.path / "environment.json", _json({"format": FORMAT, **environment}))
        write_bytes(self.path / "study.yaml", to_yaml(study).encode())

    def write_results(self, results: Sequence[TrialResult]) -> None:
        """The three tables."""
        import pyarrow.parquet as pq

        for name, table in (
            ("trials", tables.trials_table(results)),
            ("curves", tables.curves_table(results)),
            ("layers", tables.layers_table(results)),
        ):
            buffer = io.BytesIO()
            pq.write_table(table, buffer, compression="zstd")
            write_bytes(self.path / f"{name}.parquet", buffer.getvalue())

    def write_text(self, name: str, text: str) -> Path:
        """A text file such as the report."""
        write_bytes(self.path / name, text.encode())
        return self.path / name

    def write_file(self, name: str, content: bytes) -> Path:
        """Any file, such as a figure."""
        write_bytes(self.path / name, content)
        return self.path / name


def _json(value: Any) -> bytes:
    return (json.dumps(plain_json(value), indent=2, ensure_ascii=False) + "\n").encode()
