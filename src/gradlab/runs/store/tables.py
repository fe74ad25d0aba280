"""Results as three tidy tables. NaN, +inf, −inf and missing (null) stay distinct.

Repeated words (trial, group, metric, measure) are dictionary-encoded in memory and plain strings in files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gradlab.errors import shortened
from gradlab.trials.metrics import METRICS

if TYPE_CHECKING:
    from gradlab.trials.outcome import TrialResult

NAMES = ("trials", "curves", "layers")
COLUMNS = ("trial", "group", "seed", "status", "error", "seconds", "digest")
"""Columns of the trials table besides the metrics."""
WORDS = ("trial", "group", "metric", "measure")
STATUSES = ("done", "diverged", "failed")
MOST_LAYERS, MOST_STEPS = 100_000, 2**53
"""Numbers above are not those of a network that was trained: a reader would count up to them."""


@cache
def schemas() -> Mapping[str, Any]:
    """Table -> the columns that it has. A trials table has metrics besides, which are float64."""
    own = [("trial", pa.string()), ("group", pa.string()), ("seed", pa.int64())]
    place = [("step", pa.int64()), ("layer", pa.int64()), ("measure", pa.string())]
    ended = [("status", pa.string()), ("error", pa.string()), ("seconds", pa.float64()), ("digest", pa.string())]
    return {
        "trials": pa.schema([*own, *ended]),
        "curves": pa.schema([*own, ("metric", pa.string()), ("step", pa.int64()), ("value", pa.float64())]),
        "layers": pa.schema([*own, *place, ("value", pa.float64())]),
    }


def check_schema(name: str, schema: Any) -> None:
    """Raise a `ValueError` that names the column if these are not the columns of this table."""
    wanted = schemas()[name]
    for field in wanted:
        there = schema.get_all_field_indices(field.name)
        if len(there) != 1:
            raise ValueError(f"the column {field.name!r} {'is missing' if not there else 'is there twice'}")
        if schema.field(there[0]).type != field.type:
            raise ValueError(f"the column {field.name!r} holds {schema.field(there[0]).type}, not {field.type}")
    for field in schema:
        if field.name in wanted.names:
            continue
        if name != "trials" or len(schema.get_all_field_indices(field.name)) != 1:
            raise ValueError(f"the column {shortened(field.name)} does not belong to it")
        if field.type != pa.float64():
            raise ValueError(f"the metric {shortened(field.name)} holds {field.type}, not {pa.float64()}")


def check_values(name: str, table: Any) -> None:
    """Raise a `ValueError` that names the column if it holds what no trial gives."""
    try:
        table.validate(full=True)
    except pa.ArrowException as error:
        raise ValueError(f"it cannot be read: {error}") from None
    for column in schemas()[name].names:
        if column not in ("error", "seconds") and table[column].null_count:
            raise ValueError(f"the column {column!r} has rows without a value")
    for column, (least, most) in {"step": (0, MOST_STEPS), "layer": (1, MOST_LAYERS)}.items():
        if column in table.column_names and table.num_rows:
            ends = pc.min_max(table[column]).as_py()
            if ends["min"] < least or ends["max"] > most:
                odd = ends["min"] if ends["min"] < least else ends["max"]
                raise ValueError(f"the column {column!r} holds {odd:,}, which is no {column} of a network")
    if name == "trials":
        odd = set(table["status"].to_pylist()) - set(STATUSES)
        if odd:
            raise ValueError(f"the column 'status' holds {shortened(min(odd))}, not {', '.join(STATUSES)}")


def tables_of(results: Sequence[TrialResult]) -> dict[str, Any]:
    """Return the three tables of these results."""
    return {"trials": trials_table(results), "curves": curves_table(results), "layers": layers_table(results)}


def trials_table(results: Iterable[TrialResult]) -> Any:
    """One row per trial: identity, status, error, wall time, digest, metrics."""
    results = list(results)
    names = dict.fromkeys([*METRICS, *(name for r in results if r.outcome for name in r.outcome.metrics)])
    columns: dict[str, Any] = {
        "trial": pa.array([r.trial.id for r in results], pa.string()),
        "group": pa.array([r.trial.group for r in results], pa.string()),
        "seed": pa.array([r.trial.seed for r in results], pa.int64()),
        "status": pa.array([r.status for r in results], pa.string()),
        "error": pa.array([r.error for r in results], pa.string()),
        "seconds": pa.array([r.seconds for r in results], pa.float64()),
        "digest": pa.array([r.digest for r in results], pa.string()),
    }
    for name in names:
        values = [r.outcome.metrics.get(name) if r.outcome else None for r in results]
        columns[name] = pa.array([None if v is None else float(v) for v in values], pa.float64(), from_pandas=False)
    return pa.table(columns)


def curves_table(results: Iterable[TrialResult]) -> Any:
    """One row per trial, metric and recorded step."""
    curves = [(r, curve) for r in results if r.outcome for curve in r.outcome.curves]
    lengths = [len(curve.steps) for _, curve in curves]
    return pa.table(
        {
            **_identity([r for r, _ in curves], lengths),
            "metric": _repeat_words([curve.metric for _, curve in curves], lengths),
            "step": pa.array(_concatenate([curve.steps for _, curve in curves], np.int64)),
            "value": pa.array(
                _concatenate([curve.values for _, curve in curves], float), pa.float64(), from_pandas=False
            ),
        }
    )


def layers_table(results: Iterable[TrialResult]) -> Any:
    """One row per trial, step, layer and measure."""
    recorded = [(r, r.outcome.layers) for r in results if r.outcome]
    lengths = [len(table.step) for _, table in recorded]
    measures = [measure for _, table in recorded for measure in table.measure]
    return pa.table(
        {
            **_identity([r for r, _ in recorded], lengths),
            "step": pa.array(_concatenate([table.step for _, table in recorded], np.int64)),
            "layer": pa.array(_concatenate([table.layer for _, table in recorded], np.int64)),
            "measure": pa.array(measures, pa.string()).dictionary_encode(),
            "value": pa.array(
                _concatenate([table.value for _, table in recorded], float), pa.float64(), from_pandas=False
            ),
        }
    )


def _identity(owners: Sequence[TrialResult], lengths: Sequence[int]) -> dict[str, Any]:
    seeds = np.array([r.trial.seed for r in owners], np.int64)
    return {
        "trial": _repeat_words([r.trial.id for r in owners], lengths),
        "group": _repeat_words([r.trial.group for r in owners], lengths),
        "seed": pa.array(np.repeat(seeds, lengths)),
    }


def _repeat_words(words: Sequence[str], lengths: Sequence[int]) -> Any:
    """Repeat each word as often as its length says, dictionary-encoded."""
    codes = {word: code for code, word in enumerate(dict.fromkeys(words))}
    indices = np.repeat(np.array([codes[word] for word in words], np.int32), lengths)
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(list(codes), pa.string()))


def _concatenate(arrays: Sequence[NDArray[Any]], kind: Any) -> NDArray[Any]:
    return np.concatenate(arrays).astype(kind, copy=False) if arrays else np.empty(0, kind)


# Parameters of many trials in one safetensors file: `TRIAL/STEP/layer3.weight` -> tensor.

_CODES = {"<f4": "F32", "<f8": "F64"}
_KEY = re.compile(r"[^/]+/\d{1,18}/.+", re.DOTALL)
Tensors = Mapping[str, NDArray[Any]]
Snapshots = Mapping[str, Mapping[int, Tensors]]
"""Trial id -> step -> name -> tensor."""


def snapshots_of(results: Iterable[TrialResult]) -> Snapshots:
    """Return all snapshots of these results."""
    recorded = ((r.trial.id, r.outcome.snapshots) for r in results if r.outcome and r.outcome.snapshots)
    return {trial: {snapshot.step: snapshot.tensors for snapshot in kept} for trial, kept in recorded}


def pack(snapshots: Snapshots) -> bytes:
    """Return the snapshots as the bytes of a safetensors file.

    The format is eight bytes of length, a JSON header, and the tensors in sequence. It is written here in one pass,
    because a sweep keeps thousands of small tensors per second; the safetensors library reads it.
    """
    header = ['"__metadata__":{"format":"gradlab","keys":"trial/step/tensor; a weight is (fan_in, fan_out)"}']
    pieces: list[bytes] = []
    start = 0
    for trial, steps in snapshots.items():
        for step, named in steps.items():
            for name, tensor in named.items():
                data = tensor.tobytes()
                shape, end = list(tensor.shape), start + len(data)
                header.append(
                    f'"{trial}/{step}/{name}":{{"dtype":"{_CODES[tensor.dtype.str]}","shape":{shape},'
                    f'"data_offsets":[{start},{end}]}}'
                )
                pieces.append(data)
                start = end
    text = f"{{{','.join(header)}}}".encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, *pieces])


def unpack(packed: bytes) -> Snapshots:
    """Return the snapshots in the bytes of a safetensors file, tensors in the order in which they were packed.

    A `ValueError` says what is wrong with a file that no run has written.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    keys = list_keys(packed)
    try:
        tensors = load(packed)
    except SafetensorError as error:
        raise ValueError(f"the stored parameters cannot be read: {error}") from None
    found: dict[str, dict[int, dict[str, NDArray[Any]]]] = {}
    for key in keys:
        trial, step, name = key.split("/", 2)
        found.setdefault(trial, {}).setdefault(int(step), {})[name] = tensors[key]
    return found


def list_keys(packed: bytes) -> list[str]:
    """Names in the order in which their tensors lie (the library gives them in any), from the header alone, checked."""
    try:
        header = json.loads(packed[8 : 8 + int.from_bytes(packed[:8], "little")])
        header.pop("__metadata__", None)
        for key, entry in header.items():
            if not _KEY.fullmatch(key) or entry["dtype"] not in _CODES.values():
                raise ValueError(f"{shortened(key)} is not a parameter of a trial")
        return sorted(header, key=lambda name: tuple(map(int, header[name]["data_offsets"])))
    except (KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError("the stored parameters cannot be read: their header is damaged") from None
