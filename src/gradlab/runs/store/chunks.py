"""Committed results: a chunk is a folder with the tables and weights of some whole trials, renamed into place at once.

results/000001/
  chunk.json            rows, bytes and SHA-256 of every file, and of itself
  trials.parquet  curves.parquet  layers.parquet  weights.safetensors

Chunks are only ever added. A chunk with other bytes than were written is reported as damaged, never read in part.
"""

from __future__ import annotations

import errno
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import pyarrow.compute as pc

from gradlab.errors import StoreError
from gradlab.runs.store import tables
from gradlab.runs.store.files import read_regular, write_folder
from gradlab.runs.store.tables import NAMES, WORDS, Snapshots, Tensors, check_schema, check_values, tables_of
from gradlab.spec.base import canonical_json
from gradlab.spec.stored import Count, Stored, read_json
from gradlab.trials.outcome import TrialResult

T = TypeVar("T")
FORMAT = 1
MANIFEST = "chunk.json"
WEIGHTS = "weights.safetensors"
FOREIGN = (errno.ENOTDIR, errno.EISDIR, errno.EINVAL, errno.ELOOP)
"""Errors of a file where a folder should be, of a folder where a file should be, and of a link to itself."""
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
        return MemoryChunk(tables_of(results), tables.snapshots_of(results))

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


def commit(path: Path, chunk: MemoryChunk, beside: Path, *, without_weights: bool = False) -> Chunk:
    """Write this chunk to `path`, whole or not at all; gives it as committed, without reading it back.

    `without_weights`: its trials kept parameters, which were left out, so that their digests cannot be computed again.
    """
    files = {f"{name}.parquet": _parquet(table) for name, table in chunk.tables.items()}
    if chunk.snapshots:
        files[WEIGHTS] = tables.pack(chunk.snapshots)
    rows = {f"{name}.parquet": table.num_rows for name, table in chunk.tables.items()}
    entries = {
        name: FileEntry(rows=rows.get(name), bytes=len(content), sha256=sha256(content).hexdigest())
        for name, content in files.items()
    }
    listed = {name: entry.model_dump() for name, entry in entries.items()}
    manifest: dict[str, Any] = {"format": FORMAT, "trials": rows["trials.parquet"], "files": listed}
    if without_weights:
        manifest["without_weights"] = True
    manifest["sha256"] = _checksum(manifest)
    write_folder(path, {**files, MANIFEST: json.dumps(manifest, indent=1).encode()}, beside)
    committed = Chunk(path, entries, str(manifest["sha256"]), without_weights)
    committed.keep_tables({"trials": chunk.tables["trials"]})
    return committed


def _parquet(table: Any) -> bytes:
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    # Bytes of equal rank lie together, so that exponents compress: a fifth smaller. Only columns that are not words.
    split = [name for name in ("value",) if name in table.column_names]
    words = [name for name in table.column_names if name not in split]
    pq.write_table(
        table, buffer, compression="zstd", store_schema=False, use_dictionary=words, use_byte_stream_split=split
    )
    return buffer.getvalue()


def _checksum(manifest: Mapping[str, Any]) -> str:
    return sha256(canonical_json({k: v for k, v in manifest.items() if k != "sha256"}).encode()).hexdigest()


def _sealed(manifest: Mapping[str, Any]) -> bool:
    try:
        return _checksum(manifest) == manifest.get("sha256")
    except (ValueError, RecursionError):
        return False


class FileEntry(Stored):
    """A file of a chunk."""

    rows: Count | None = None
    """Of a table."""
    bytes: Count
    sha256: str


class Manifest(Stored):
    """What `chunk.json` holds."""

    format: int
    files: dict[str, FileEntry]
    sha256: str
    without_weights: bool = False


@dataclass(frozen=True)
class Chunk:
    """A committed chunk. The first read of a file checks all of it against its checksum.

    The trials table is small and stays in memory once it has been read or written.
    """

    path: Path
    files: Mapping[str, FileEntry]
    sha256: str
    """Of its list of files, which holds the checksum of each: it stands for every byte of the chunk."""
    without_weights: bool = False
    """Whether parameters that its trials had kept were left out."""
    _tables: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """Tables in memory, by name."""
    _verified: set[str] = field(default_factory=set, compare=False, repr=False)
    """Files whose checksum was found to be right since this chunk was opened."""

    @staticmethod
    def open(path: Path) -> Chunk:
        """The chunk at `path`; `DamagedChunk` where its list of files cannot be trusted."""
        try:
            manifest = read_json(read_regular(path / MANIFEST))
        except FileNotFoundError:
            raise _damaged(path / MANIFEST, "it is missing") from None
        except OSError as error:
            if error.errno in FOREIGN:
                raise DamagedChunk(f"{path} is not a folder of results and not part of the run; remove it") from None
            raise StoreError(f"cannot read {path / MANIFEST}: {error.strerror or error}") from None
        except ValueError:
            raise _damaged(path / MANIFEST, "not readable") from None
        if not isinstance(manifest, dict) or not _sealed(manifest):
            raise _damaged(path / MANIFEST, "its checksum does not fit")
        try:
            found = Manifest.fit(manifest)
        except ValueError as error:
            raise _damaged(path / MANIFEST, str(error)) from None
        tables = {f"{name}.parquet" for name in NAMES}
        if not tables <= found.files.keys() <= {*tables, WEIGHTS}:
            raise _damaged(path / MANIFEST, "it is not a list of files")
        if found.format != FORMAT:
            raise StoreError(f"{path}: format {found.format}, and this gradlab reads format {FORMAT}")
        return Chunk(path, found.files, found.sha256, found.without_weights)

    def verify(self) -> None:
        """Check every file; `DamagedChunk` names the first that is not what was written, or not what a run writes."""
        self.check_tables()
        if WEIGHTS in self.files:
            self._parameters(tables.list_keys)

    def check_tables(self) -> None:
        """Check the three tables and keep them; `DamagedChunk` names the first that a reader cannot rely on."""
        self.keep_tables({name: self.table(name) for name in NAMES})

    def table(self, name: str, filters: Any = None) -> Any:
        """One of the three tables, whole or some rows of it."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        if name in self._tables:
            return self._tables[name] if filters is None else self._tables[name].filter(filters)
        path, content = self.path / f"{name}.parquet", self._bytes(f"{name}.parquet")
        words = [] if name == "trials" else list(WORDS)
        try:
            check_schema(name, pq.read_schema(pa.BufferReader(content)))
            table = pq.read_table(pa.BufferReader(content), filters=filters, read_dictionary=words)
            check_values(name, table)
        except (pa.ArrowException, OSError, ValueError) as error:  # the checksum is right: somebody else wrote it
            raise _damaged(path, str(error)) from None
        if name == "trials" and filters is None:
            self._tables[name] = table
        return table

    def count_rows(self, name: str) -> int:
        """Rows of one table, without reading it."""
        return self.files[f"{name}.parquet"].rows or 0

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
        return self._parameters(tables.unpack) if WEIGHTS in self.files else {}

    def _parameters(self, read: Callable[[bytes], T]) -> T:
        try:
            return read(self._bytes(WEIGHTS))
        except ValueError as error:
            raise _damaged(self.path / WEIGHTS, str(error)) from None

    def _bytes(self, name: str) -> bytes:
        path, entry = self.path / name, self.files[name]
        try:
            content = read_regular(path)
        except FileNotFoundError:
            raise _damaged(path, "it is missing") from None
        except OSError as error:
            if error.errno in FOREIGN:
                raise _damaged(path, "it is not a regular file") from None
            raise StoreError(  # the file may be whole, so it is not damaged
                f"cannot read {path}: {error.strerror or error}"
            ) from None
        if len(content) != entry.bytes:
            raise _damaged(path, f"{len(content):,} bytes, and {entry.bytes:,} were written")
        if name not in self._verified and sha256(content).hexdigest() != entry.sha256:
            raise _damaged(path, "its checksum does not fit")
        self._verified.add(name)
        return content


def _damaged(path: Path, reason: str) -> DamagedChunk:
    return DamagedChunk(f"{path} is damaged: {reason}; rerun the study to retrain its trials")
