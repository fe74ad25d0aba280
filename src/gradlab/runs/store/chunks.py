"""Committed results: a chunk is a folder with the tables and weights of some whole trials, renamed into place at once.

results/000001/
  chunk.json            rows, bytes and SHA-256 of every file, and of itself
  trials.parquet  curves.parquet  layers.parquet  weights.safetensors

Chunks are only ever added. A chunk with other bytes than were written is reported as damaged, never read in part.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from gradlab.errors import StoreError
from gradlab.runs.store import weights
from gradlab.runs.store.atomic import read_regular, write_folder
from gradlab.runs.store.tables import NAMES, WORDS, tables_of
from gradlab.runs.store.weights import Snapshots, Tensors
from gradlab.spec.canonical import canonical_json
from gradlab.trials.result import TrialResult

FORMAT = 1
MANIFEST = "chunk.json"
WEIGHTS = "weights.safetensors"
MOST_TENSORS = 200_000
"""Of one weights file: readers refuse a header of more than 100 MB."""


class DamagedChunk(StoreError):
    """A chunk that does not hold what was written."""


@dataclass(frozen=True)
class MemoryChunk:
    """Results that are not written, or not yet."""

    tables: Mapping[str, Any]
    snapshots: Snapshots

    @staticmethod
    def of(results: Sequence[TrialResult]) -> MemoryChunk:
        """The chunk of these results."""
        return MemoryChunk(tables_of(results), weights.snapshots_of(results))

    def table(self, name: str, filters: Any = None) -> Any:
        """One of the three tables, whole or some rows of it."""
        return self.tables[name] if filters is None else self.tables[name].filter(filters)

    @property
    def rows(self) -> int:
        """Rows of all tables."""
        return sum(int(table.num_rows) for table in self.tables.values())

    def count_rows(self, name: str) -> int:
        """Rows of one table."""
        return int(self.tables[name].num_rows)

    def weights(self, trial: str) -> Mapping[int, Tensors]:
        """The snapshots of a trial, by step."""
        return self.snapshots.get(trial, {})

    def loaded(self) -> MemoryChunk:
        """Itself."""
        return self

    def only(self, trials: set[str]) -> MemoryChunk:
        """The part that belongs to these trials."""
        import pyarrow as pa

        wanted = pc.field("trial").isin(pa.array(sorted(trials), pa.string()))
        tables = {name: table.filter(wanted) for name, table in self.tables.items()}
        return MemoryChunk(tables, {trial: kept for trial, kept in self.snapshots.items() if trial in trials})

    def pieces(self) -> list[MemoryChunk]:
        """Itself, or several that each hold no more tensors than a file's header has room for."""
        counts = {trial: sum(len(named) for named in steps.values()) for trial, steps in self.snapshots.items()}
        if sum(counts.values()) <= MOST_TENSORS:
            return [self]
        groups: list[set[str]] = [set()]
        room = MOST_TENSORS
        for trial in self.tables["trials"]["trial"].to_pylist():
            if groups[-1] and counts.get(trial, 0) > room:
                groups.append(set())
                room = MOST_TENSORS
            groups[-1].add(trial)
            room -= counts.get(trial, 0)
        return [self.only(group) for group in groups]


def commit(path: Path, chunk: MemoryChunk, beside: Path) -> Chunk:
    """Write this chunk to `path`, whole or not at all; gives it as committed, without reading it back."""
    files = {f"{name}.parquet": _parquet(table) for name, table in chunk.tables.items()}
    if chunk.snapshots:
        files[WEIGHTS] = weights.pack(chunk.snapshots)
    rows = {f"{name}.parquet": table.num_rows for name, table in chunk.tables.items()}
    entries = {
        name: {"rows": rows.get(name), "bytes": len(content), "sha256": sha256(content).hexdigest()}
        for name, content in files.items()
    }
    manifest = {"format": FORMAT, "trials": rows["trials.parquet"], "files": entries}
    manifest["sha256"] = _checksum(manifest)
    write_folder(path, {**files, MANIFEST: json.dumps(manifest, indent=1).encode()}, beside)
    committed = Chunk(path, entries, str(manifest["sha256"]))
    committed.keep_tables({"trials": chunk.tables["trials"]})
    return committed


def _parquet(table: Any) -> bytes:
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd", store_schema=False)
    return buffer.getvalue()


def _checksum(manifest: Mapping[str, Any]) -> str:
    return sha256(canonical_json({k: v for k, v in manifest.items() if k != "sha256"}).encode()).hexdigest()


def _sealed(manifest: Mapping[str, Any]) -> bool:
    try:
        return _checksum(manifest) == manifest.get("sha256")
    except (ValueError, RecursionError):
        return False


def _is_manifest(manifest: Mapping[str, Any]) -> bool:
    files = manifest.get("files")
    return (
        "format" in manifest
        and isinstance(files, dict)
        and {f"{name}.parquet" for name in NAMES} <= files.keys() <= {*(f"{name}.parquet" for name in NAMES), WEIGHTS}
        and all(isinstance(e, dict) and isinstance(e.get("bytes"), int) and "sha256" in e for e in files.values())
    )


@dataclass(frozen=True)
class Chunk:
    """A committed chunk. The first read of a file checks all of it against its checksum.

    The trials table is small and stays in memory once it has been read or written.
    """

    path: Path
    files: Mapping[str, Mapping[str, Any]]
    sha256: str
    """Of its list of files, which holds the checksum of each: it stands for every byte of the chunk."""
    _tables: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """Tables in memory, by name."""
    _verified: set[str] = field(default_factory=set, compare=False, repr=False)
    """Files whose checksum was found to be right since this chunk was opened."""

    @staticmethod
    def open(path: Path) -> Chunk:
        """The chunk at `path`; `DamagedChunk` where its list of files cannot be trusted."""
        try:
            manifest = json.loads(read_regular(path / MANIFEST))
        except FileNotFoundError:
            raise _damaged(path / MANIFEST, "it is missing") from None
        except OSError as error:
            raise StoreError(f"cannot read {path / MANIFEST}: {error.strerror or error}") from None
        except (ValueError, RecursionError):
            raise _damaged(path / MANIFEST, "not readable") from None
        if not isinstance(manifest, dict) or not _sealed(manifest):
            raise _damaged(path / MANIFEST, "its checksum does not fit")
        if not _is_manifest(manifest):
            raise _damaged(path / MANIFEST, "it is not a list of files")
        if manifest["format"] != FORMAT:
            raise StoreError(f"{path}: format {manifest['format']}, and this gradlab reads format {FORMAT}")
        return Chunk(path, manifest["files"], manifest["sha256"])

    def verify(self) -> None:
        """Check every file; `DamagedChunk` names the first that is not what was written."""
        for name in self.files:
            self._bytes(name)

    def table(self, name: str, filters: Any = None) -> Any:
        """One of the three tables, whole or some rows of it."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        if name in self._tables:
            return self._tables[name] if filters is None else self._tables[name].filter(filters)
        content = self._bytes(f"{name}.parquet")
        words = [] if name == "trials" else list(WORDS)
        try:
            table = pq.read_table(pa.BufferReader(content), filters=filters, read_dictionary=words)
        except (OSError, ValueError) as error:  # the checksum is right, so it was written like this: a defect
            raise StoreError(f"{self.path / name}.parquet cannot be read: {error}") from None
        if name == "trials" and filters is None:
            self._tables[name] = table
        return table

    def count_rows(self, name: str) -> int:
        """Rows of one table, without reading it."""
        return int(self.files[f"{name}.parquet"].get("rows") or 0)

    def keep_tables(self, tables: Mapping[str, Any]) -> None:
        """Hold tables that were just written in memory."""
        self._tables.update(tables)

    def weights(self, trial: str) -> Mapping[int, Tensors]:
        """The snapshots of a trial, by step."""
        return self._snapshots().get(trial, {})

    def loaded(self) -> MemoryChunk:
        """All of it in memory."""
        return MemoryChunk({name: self.table(name) for name in NAMES}, self._snapshots())

    def _snapshots(self) -> Snapshots:
        return weights.unpack(self._bytes(WEIGHTS)) if WEIGHTS in self.files else {}

    def _bytes(self, name: str) -> bytes:
        path, entry = self.path / name, self.files[name]
        try:
            content = read_regular(path)
        except FileNotFoundError:
            raise _damaged(path, "it is missing") from None
        except OSError as error:  # the file may be whole, so it is not damaged
            raise StoreError(f"cannot read {path}: {error.strerror or error}") from None
        if len(content) != entry["bytes"]:
            raise _damaged(path, f"{len(content):,} bytes, and {entry['bytes']:,} were written")
        if name not in self._verified and sha256(content).hexdigest() != entry["sha256"]:
            raise _damaged(path, "its checksum does not fit")
        self._verified.add(name)
        return content


def _damaged(path: Path, reason: str) -> DamagedChunk:
    return DamagedChunk(f"{path} is damaged: {reason}; rerun the study to retrain its trials")
