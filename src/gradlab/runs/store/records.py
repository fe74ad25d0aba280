"""All results of a run by trial id, from however many chunks, on disk or in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from hashlib import sha256
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gradlab.runs.store.chunks import Chunk, MemoryChunk
from gradlab.runs.store.tables import Tensors, tables_of


@cache
def _empty() -> Mapping[str, Any]:
    return tables_of(())


MOST_ROWS = 5_000_000
"""Curves of more rows (about 40 bytes each) are read metric by metric instead of once."""


class Records:
    """Tables are read when they are asked for; trials and curves once, unless the curves are very large."""

    def __init__(self, chunks: Sequence[Chunk | MemoryChunk], seeds: Sequence[int] = ()) -> None:
        self.chunks = tuple(chunks)
        self.seeds = tuple(seeds)
        """Seeds in the order in which the run's ledger first saw them; empty where there is no ledger."""

    @cached_property
    def trials(self) -> Any:
        """One row per trial id: the latest, but a result rather than a failure."""
        table = pa.concat_tables([_empty()["trials"], *self._each], promote_options="default")
        rows: dict[str, int] = {}
        status = table["status"].to_pylist()
        for row, trial in enumerate(table["trial"].to_pylist()):
            if status[row] != "failed" or trial not in rows or status[rows[trial]] == "failed":
                rows[trial] = row
        return table if len(rows) == table.num_rows else table.take(sorted(rows.values()))

    @cached_property
    def _each(self) -> list[Any]:
        return [chunk.table("trials") for chunk in self.chunks]

    @property
    def finished(self) -> set[str]:
        """Ids of the trials that need not be run again; failed ones are retried."""
        status = zip(self.trials["trial"].to_pylist(), self.trials["status"].to_pylist(), strict=True)
        return {trial for trial, how in status if how != "failed"}

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
        found: Mapping[int, Tensors] = {}
        for chunk, table in zip(self.chunks, self._each, strict=True):
            if pc.any(pc.equal(table["trial"], trial)).as_py():
                found = chunk.weights(trial) or found  # the latest, as in the tables
        return found

    def _join(self, name: str, filters: Any) -> Any:
        tables = [
            _drop_trials(chunk.table(name, filters=filters), superseded)
            for chunk, superseded in zip(self.chunks, self._superseded, strict=True)
        ]
        return pa.concat_tables([_empty()[name], *tables]).unify_dictionaries()

    @cached_property
    def _superseded(self) -> list[set[str]]:
        """Of each chunk, the trials that a later chunk holds too: run again, or a folder copied by hand."""
        latest = {trial: number for number, table in enumerate(self._each) for trial in table["trial"].to_pylist()}
        return [{t for t in table["trial"].to_pylist() if latest[t] != n} for n, table in enumerate(self._each)]


def _drop_trials(table: Any, trials: set[str]) -> Any:
    if not trials:
        return table
    return table.filter(pc.invert(pc.is_in(table["trial"].cast(pa.string()), pa.array(sorted(trials), pa.string()))))


def results_hash(trials: Any) -> str:
    """One hash for all results in a trials table, wall times aside: equal hashes, equal bits."""
    pairs = sorted(set(zip(trials["trial"].to_pylist(), trials["digest"].to_pylist(), strict=True)))
    return sha256(repr(pairs).encode()).hexdigest()[:16]
