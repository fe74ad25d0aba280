"""Digests computed again from what a chunk stores: an edited number no longer fits the digest beside it.

Stored is less than a trial gave: whole numbers come back as floats, and of user code neither the order of its metrics
nor which of them were None is kept. Where that leaves the digest open, it is not judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.network.layout import Layout
from gradlab.runs.store.chunks import Chunk
from gradlab.runs.store.tables import COLUMNS, Tensors
from gradlab.trials.outcome import Curve, LayerTable, Outcome, Snapshot, digest

WHOLE = ("steps_to_target", "collapsed", "diverged_step", "parameters", "flops")
"""Metrics of a trial that are whole numbers."""
EXACT = 2.0**53
"""From here on a float no longer holds every whole number."""
MOST_GUESSES = 6
"""Metrics whose kind (whole number or float) is guessed: 2⁶ digests at most."""

Numbers = Mapping[str, float | int | None]


def rehash(chunk: Chunk, *, own_code: bool) -> dict[str, bool | None]:
    """Trial -> whether its digest is that of its stored numbers; None where that cannot be told."""
    table = chunk.table("trials")
    curves, layers = _split(chunk.table("curves")), _split(chunk.table("layers"))
    kept = chunk.loaded().snapshots
    names = [name for name in table.column_names if name not in COLUMNS]
    found: dict[str, bool | None] = {}
    for row in table.to_pylist():
        trial, status = row["trial"], row["status"]
        if status == "failed":
            found[trial] = digest(trial, None, row["error"]) == row["digest"]
            continue
        numbers = {name: row[name] for name in names if not own_code or row[name] is not None}
        drawn = _curves(curves.get(trial), own_code)
        table_of = _layers(layers.get(trial))
        shots = _snapshots(kept.get(trial, {}))
        fits = any(
            digest(trial, Outcome(status, guess, drawn, table_of, np.empty(0), shots), None) == row["digest"]
            for guess in _guesses(numbers)
        )
        open_ = (
            own_code
            or chunk.without_weights
            or any(value is not None and abs(value) >= EXACT for value in numbers.values())
        )
        found[trial] = True if fits else None if open_ else False
    return found


def _guesses(numbers: Numbers) -> Iterator[Numbers]:
    """The metrics with the kinds that they most likely had, then with any."""
    whole = [name for name, value in numbers.items() if value is not None and float(value).is_integer()]
    likely = {name: name in WHOLE for name in whole}
    yield _typed(numbers, likely)
    for kinds in product((True, False), repeat=len(whole)) if len(whole) <= MOST_GUESSES else ():
        if (guess := dict(zip(whole, kinds, strict=True))) != likely:
            yield _typed(numbers, guess)


def _typed(numbers: Numbers, whole: Mapping[str, bool]) -> Numbers:
    return {
        name: int(value) if value is not None and whole.get(name, False) else value for name, value in numbers.items()
    }


def _split(table: Any) -> dict[str, dict[str, Any]]:
    """Trial -> its rows, column by column, in the order in which they were written."""
    column = table["trial"].combine_chunks()
    codes = column.indices.to_numpy(zero_copy_only=False)
    order = np.argsort(codes, kind="stable")
    edges = np.searchsorted(codes[order], np.arange(len(column.dictionary) + 1))
    words = {name: table[name].combine_chunks() for name in ("metric", "measure") if name in table.column_names}
    columns = {name: table[name].to_numpy()[order] for name in ("step", "layer", "value") if name in table.column_names}
    columns |= {name: word.indices.to_numpy(zero_copy_only=False)[order] for name, word in words.items()}
    names = {name: np.array(word.dictionary.to_pylist(), object) for name, word in words.items()}
    found = {}
    for trial, low, high in zip(column.dictionary.to_pylist(), edges[:-1], edges[1:], strict=True):
        own = {name: values[low:high] for name, values in columns.items()}
        found[trial] = {**own, **{name: names[name][own[name]] for name in names}}
    return found


def _curves(rows: Mapping[str, Any] | None, own_code: bool) -> tuple[Curve, ...]:
    if rows is None or not len(rows["step"]):
        empty = Curve("loss", np.empty(0, np.int64), np.empty(0))
        return () if own_code else (empty,)  # of a trial of no steps
    names = rows["metric"]
    edges = [0, *(np.flatnonzero(names[1:] != names[:-1]) + 1).tolist(), len(names)]
    return tuple(
        Curve(str(names[low]), rows["step"][low:high], rows["value"][low:high]) for low, high in pairwise(edges)
    )


def _layers(rows: Mapping[str, Any] | None) -> LayerTable:
    if rows is None:
        return LayerTable(np.empty(0, np.int64), np.empty(0, np.int64), (), np.empty(0))
    return LayerTable(rows["step"], rows["layer"], tuple(rows["measure"].tolist()), rows["value"])


def _snapshots(steps: Mapping[int, Tensors]) -> tuple[Snapshot, ...]:
    return tuple(
        Snapshot(step, _flat([t for name, t in named.items() if ".running_" not in name]), Layout(()), _running(named))
        for step, named in sorted(steps.items())
    )


def _running(named: Tensors) -> dict[str, NDArray[Any]]:
    return {name: tensor for name, tensor in named.items() if ".running_" in name}


def _flat(tensors: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate([np.ravel(tensor) for tensor in tensors]) if tensors else np.empty(0, np.float32)
