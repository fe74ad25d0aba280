"""A run's folder: the study as it was resolved, the environment, the tables, the report.

runs/identity/
  study.yaml  environment.json  trials.parquet  curves.parquet  layers.parquet  report.md  figures/
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from gradlab.errors import StoreError, shortened
from gradlab.execute.base import TrialResult
from gradlab.spec.canonical import plain_json
from gradlab.spec.files import Resolved, to_yaml
from gradlab.spec.yaml_text import dump
from gradlab.store import tables
from gradlab.store.atomic import write_bytes

FORMAT = 1
RESULTS = ("report.md", "trials.parquet", "curves.parquet", "layers.parquet")


@dataclass(frozen=True)
class RunFolder:
    """Where a run keeps what it found."""

    path: Path

    @staticmethod
    def start(path: Path, resolved: Resolved, environment: dict[str, Any]) -> RunFolder:
        """The folder of a run that is about to start, with its study in it and no results yet.

        A folder that holds another study's run is moved aside, never written over; one with somebody's other files
        is refused.
        """
        study = to_yaml(resolved.study).encode()
        try:
            occupied = path.is_dir() and any(path.iterdir())
        except OSError as error:
            raise StoreError(f"cannot use the run's folder {shortened(str(path))}: {error.strerror or error}") from None
        if occupied:
            if not (path / "environment.json").is_file():
                raise StoreError(f"{path} is not empty and not a run of gradlab; choose another folder with --out")
            _clear(path) if _content(path / "study.yaml") == study else _move_aside(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot make the run's folder {path}: {error.strerror or error}") from None
        folder = RunFolder(path)
        folder.write_file("environment.json", _json({"format": FORMAT, **environment}))
        folder.write_file("study.yaml", study)
        groups = {group.name: group.config.model_dump(mode="json") for group in resolved.groups}
        parts = {Path(file.path).name: file.sha256 for file in resolved.catalog.files}
        folder.write_text("resolved.yaml", dump({"groups": groups, **({"parts": parts} if parts else {})}))
        for file in resolved.catalog.files:
            folder.write_file(f"parts/{Path(file.path).name}", Path(file.path).read_bytes())
        return folder

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


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _clear(path: Path) -> None:
    """Remove the results of the same study: the new ones take their place."""
    try:
        for name in RESULTS:
            (path / name).unlink(missing_ok=True)
        for figure in (path / "figures").glob("*.*"):
            figure.unlink()
    except OSError as error:
        raise StoreError(f"cannot clear {path}: {error.strerror or error}") from None


def _move_aside(path: Path) -> None:
    """Rename the folder of another study's run to the first free `NAME~1`, `NAME~2`, …"""
    number = next(n for n in count(1) if not path.with_name(f"{path.name}~{n}").exists())
    try:
        path.rename(path.with_name(f"{path.name}~{number}"))
    except OSError as error:
        raise StoreError(f"{path} holds another study's run and cannot be moved aside: {error.strerror}") from None


def _json(value: Any) -> bytes:
    return (json.dumps(plain_json(value), indent=2, ensure_ascii=False) + "\n").encode()
