"""The results of a run by trial id: committed chunks, each with the tables and weights of some whole trials.

results/000001/
  chunk.json            rows, bytes and SHA-256 of every file, and of itself
  trials.parquet  curves.parquet  layers.parquet  weights.safetensors

A chunk is a folder that is renamed into place at once. Chunks are only ever added. A chunk with other bytes than were
written is reported as damaged, never read in part.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from gradlab.errors import StoreError
from gradlab.runs.store.files import DamagedFile, checksum, read_sealed, read_stored, sealed, write_folder
from gradlab.runs.store.tables import (
    NAMES,
    WORDS,
    Snapshots,
    Tensors,
    check_schema,
    check_values,
    list_keys,
    pack,
    schemas,
    snapshots_of,
    tables_of,
    unpack,
)
from gradlab.spec.stored import Count, Stored
from gradlab.trials.outcome import TrialResult

T = TypeVar("T")
FORMAT = 1
RESULTS, MANIFEST, WEIGHTS = "results", "chunk.json", "weights.safetensors"
MOST_TENSORS = 200_000
"""Of one weights file: readers refuse a header of more than 100 MB."""
MOST_ROWS = 5_000_000
"""Curves of more rows (about 40 bytes each) are read metric by metric instead of once."""


@dataclass(frozen=True)
class MemoryChunk:
    """Results that are not written, or not yet."""

    tables: Mapping[str, Any]
    snapshots: Snapshots

    @staticmethod
    def of(results: Sequence[TrialResult]) -> MemoryChunk:
        """The chunk of these results."""
        return MemoryChunk(tables_of(results), snapshots_of(results))

    def table(self, name: str, filters: Any = None) -> Any:
        """One of the three tables, whole or some rows of it."""
        return self.tables[name] if filters is None else self.tables[name].filter(filters)

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
        wanted = pc.field("trial").isin(pa.array(sorted(trials), pa.string()))
        tables = {name: table.filter(wanted) for name, table in self.tables.items()}
        return MemoryChunk(tables, {trial: steps for trial, steps in self.snapshots.items() if trial in trials})

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
        files[WEIGHTS] = pack(chunk.snapshots)
    rows = {f"{name}.parquet": table.num_rows for name, table in chunk.tables.items()}
    entries = {
        name: FileEntry(rows=rows.get(name), bytes=len(content), sha256=sha256(content).hexdigest())
        for name, content in files.items()
    }
    listed = {name: entry.model_dump() for name, entry in entries.items()}
    manifest: dict[str, Any] = {"format": FORMAT, "trials": rows["trials.parquet"], "files": listed}
    if without_weights:
        manifest["without_weights"] = True
    write_folder(path, {**files, MANIFEST: sealed(manifest).rstrip()}, beside)
    committed = Chunk(path, entries, checksum(manifest), without_weights)
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
        """The chunk at `path`; `DamagedFile` where its list of files cannot be trusted."""
        if os.path.lexists(path) and not path.is_dir():
            raise DamagedFile(f"{path} is not a folder of results and not part of the run; remove it")
        try:
            tree = read_sealed(path / MANIFEST)
            if tree is None:
                raise DamagedFile.at(path / MANIFEST, "it is missing")
            manifest = Manifest.fit(tree)
        except (DamagedFile, ValueError) as error:
            raise _damaged(path / MANIFEST, error) from None
        tables = {f"{name}.parquet" for name in NAMES}
        if not tables <= manifest.files.keys() <= {*tables, WEIGHTS}:
            raise _damaged(path / MANIFEST, "it is not a list of files")
        if manifest.format != FORMAT:
            raise StoreError(f"{path}: format {manifest.format}, and this gradlab reads format {FORMAT}")
        return Chunk(path, manifest.files, checksum(tree), manifest.without_weights)

    def verify(self) -> None:
        """Check every file; `DamagedFile` names the first that is not what was written, or not what a run writes."""
        self.check_tables()
        if WEIGHTS in self.files:
            self._parameters(list_keys)

    def check_tables(self) -> None:
        """Check the three tables and keep them; `DamagedFile` names the first that a reader cannot rely on."""
        self.keep_tables({name: self.table(name) for name in NAMES})

    def table(self, name: str, filters: Any = None) -> Any:
        """One of the three tables, whole or some rows of it."""
        import pyarrow.parquet as pq

        if name in self._tables:
            return self._tables[name] if filters is None else self._tables[name].filter(filters)
        content = self._bytes(f"{name}.parquet")
        words = [] if name == "trials" else list(WORDS)
        try:
            check_schema(name, pq.read_schema(pa.BufferReader(content)))
            table = pq.read_table(pa.BufferReader(content), filters=filters, read_dictionary=words)
            check_values(name, table)
            table = table.select(list(dict.fromkeys([*schemas()[name].names, *table.column_names])))  # in our order
        except (pa.ArrowException, OSError, ValueError) as error:  # the checksum is right: somebody else wrote it
            raise _damaged(self.path / f"{name}.parquet", str(error)) from None
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
        return self._parameters(unpack) if WEIGHTS in self.files else {}

    def _parameters(self, read: Callable[[bytes], T]) -> T:
        try:
            return read(self._bytes(WEIGHTS))
        except ValueError as error:
            raise _damaged(self.path / WEIGHTS, str(error)) from None

    def _bytes(self, name: str) -> bytes:
        path, entry = self.path / name, self.files[name]
        try:
            content = read_stored(path)
        except DamagedFile as error:
            raise _damaged(path, error) from None
        if content is None:
            raise _damaged(path, "it is missing")
        if len(content) != entry.bytes:
            raise _damaged(path, f"{len(content):,} bytes, and {entry.bytes:,} were written")
        if name not in self._verified and sha256(content).hexdigest() != entry.sha256:
            raise _damaged(path, "its checksum does not fit")
        self._verified.add(name)
        return content


def _damaged(path: Path, reason: str | Exception) -> DamagedFile:
    error = reason if isinstance(reason, DamagedFile) else DamagedFile.at(path, str(reason))
    return DamagedFile(f"{error}; rerun the study to retrain its trials")


def chunk_paths(folder: Path) -> list[Path]:
    """The committed chunks of a run, in the order of their numbers."""
    try:
        paths = (folder / RESULTS).iterdir()
        return sorted(path for path in paths if path.name.isascii() and path.name.isdigit())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreError(f"cannot read {folder / RESULTS}: {error.strerror or error}") from None


def read_chunks(
    folder: Path, check: Callable[[Chunk], object], caught: type[StoreError] = DamagedFile
) -> tuple[list[Chunk], dict[Path, StoreError]]:
    """The chunks of a run that can be opened and pass `check`, and the error of each that cannot."""
    chunks: list[Chunk] = []
    damaged: dict[Path, StoreError] = {}
    for path in chunk_paths(folder):
        try:
            chunk = Chunk.open(path)
            check(chunk)
            chunks.append(chunk)
        except caught as error:
            damaged[path] = error
    return chunks, damaged


@cache
def _empty() -> Mapping[str, Any]:
    return tables_of(())


class Records:
    """All results by trial id, from however many chunks, on disk or in memory.

    Tables are read when they are asked for; trials and curves once, unless the curves are very large.
    """

    def __init__(self, chunks: Sequence[Chunk | MemoryChunk], seeds: Sequence[int] = ()) -> None:
        self.chunks = tuple(chunks)
        self.seeds = tuple(seeds)
        """Seeds in the order in which the run's ledger first saw them; empty where there is no ledger."""

    @cached_property
    def trials(self) -> Any:
        """One row per trial id: the latest, but a result rather than a failure."""
        table = pa.concat_tables([_empty()["trials"], *self._trial_tables], promote_options="default")
        rows: dict[str, int] = {}
        status = table["status"].to_pylist()
        for row, trial in enumerate(table["trial"].to_pylist()):
            if status[row] != "failed" or trial not in rows or status[rows[trial]] == "failed":
                rows[trial] = row
        return table if len(rows) == table.num_rows else table.take(sorted(rows.values()))

    @cached_property
    def _trial_tables(self) -> list[Any]:
        return [chunk.table("trials") for chunk in self.chunks]

    @cached_property
    def status(self) -> Mapping[str, str]:
        """Trial id -> how it ended: `done`, `diverged` or `failed`."""
        return self._by_trial("status")

    @cached_property
    def digests(self) -> Mapping[str, str]:
        """Trial id -> the digest of its result."""
        return self._by_trial("digest")

    def _by_trial(self, column: str) -> dict[str, str]:
        return dict(zip(self.trials["trial"].to_pylist(), self.trials[column].to_pylist(), strict=True))

    @property
    def finished(self) -> set[str]:
        """Ids of the trials that need not be run again; failed ones are retried."""
        return {trial for trial, status in self.status.items() if status != "failed"}

    def curves(self, metric: str | None = None) -> Any:
        """Rows of trial, group, seed, metric, step, value: all, or of one metric."""
        wanted = None if metric is None else pc.field("metric") == metric
        if self.count_rows("curves") > MOST_ROWS:
            return self._join("curves", wanted)
        return self._curves if wanted is None else self._curves.filter(wanted)

    @cached_property
    def _curves(self) -> Any:
        return self._join("curves", None)

    def layers(self) -> Any:
        """Rows of trial, group, seed, step, layer, measure, value."""
        return self._join("layers", None)

    def count_rows(self, name: str) -> int:
        """Rows of a table, without reading it; those of superseded trials included."""
        return sum(chunk.count_rows(name) for chunk in self.chunks)

    def stream(self, name: str) -> Iterator[Any]:
        """Yield `curves` or `layers` chunk by chunk; only one of them is in memory."""
        for chunk, superseded in zip(self.chunks, self._superseded, strict=True):
            yield _drop_trials(chunk.table(name), superseded)

    def weights(self, trial: str) -> Mapping[int, Tensors]:
        """The kept parameters of a trial: step -> name -> tensor."""
        weights: Mapping[int, Tensors] = {}
        for chunk, table in zip(self.chunks, self._trial_tables, strict=True):
            if pc.any(pc.equal(table["trial"], trial)).as_py():
                weights = chunk.weights(trial) or weights  # the latest, as in the tables
        return weights

    def _join(self, name: str, filters: Any) -> Any:
        tables = [
            _drop_trials(chunk.table(name, filters=filters), superseded)
            for chunk, superseded in zip(self.chunks, self._superseded, strict=True)
        ]
        return pa.concat_tables([_empty()[name], *tables]).unify_dictionaries()

    @cached_property
    def _superseded(self) -> list[set[str]]:
        """Of each chunk, the trials that a later chunk holds too: run again, or a folder copied by hand."""
        ids = [table["trial"].to_pylist() for table in self._trial_tables]
        latest = {trial: number for number, trials in enumerate(ids) for trial in trials}
        return [{trial for trial in trials if latest[trial] != number} for number, trials in enumerate(ids)]


def _drop_trials(table: Any, trials: set[str]) -> Any:
    if not trials:
        return table
    return table.filter(pc.invert(pc.is_in(table["trial"].cast(pa.string()), pa.array(sorted(trials), pa.string()))))


def results_hash(trials: Any) -> str:
    """One hash for all results in a trials table, wall times aside: equal hashes, equal bits."""
    pairs = sorted(set(zip(trials["trial"].to_pylist(), trials["digest"].to_pylist(), strict=True)))
    return sha256(repr(pairs).encode()).hexdigest()[:16]
