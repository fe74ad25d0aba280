"""Results as three tidy tables. NaN, +inf, −inf and missing (null) stay four different things.

Words that repeat (trial, group, metric, measure) are dictionary-encoded in memory; in a file they are plain strings.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gradlab.trials.recorder import METRICS
from gradlab.trials.result import TrialResult

NAMES = ("trials", "curves", "layers")
COLUMNS = ("trial", "group", "seed", "status", "error", "seconds", "digest")
"""What the trials table says of a trial besides its metrics."""
WORDS = ("trial", "group", "metric", "measure")


def tables_of(results: Sequence[TrialResult]) -> dict[str, Any]:
    """The three tables of these results."""
    return {"trials": trials_table(results), "curves": curves_table(results), "layers": layers_table(results)}


def trials_table(results: Iterable[TrialResult]) -> Any:
    """One row per trial: what it is, how it ended, how long it took, the digest of its result, its metrics."""
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
    """One row per trial, metric and step at which it was taken."""
    curves = [(r, curve) for r in results if r.outcome for curve in r.outcome.curves]
    lengths = [len(curve.steps) for _, curve in curves]
    return pa.table(
        {
            **_identity([r for r, _ in curves], lengths),
            "metric": _words([curve.metric for _, curve in curves], lengths),
            "step": pa.array(_joined([curve.steps for _, curve in curves], np.int64)),
            "value": pa.array(_joined([curve.values for _, curve in curves], float), pa.float64(), from_pandas=False),
        }
    )


def layers_table(results: Iterable[TrialResult]) -> Any:
    """One row per trial, step, layer and measure."""
    there = [(r, r.outcome.layers) for r in results if r.outcome]
    lengths = [len(table.step) for _, table in there]
    measures = [measure for _, table in there for measure in table.measure]
    return pa.table(
        {
            **_identity([r for r, _ in there], lengths),
            "step": pa.array(_joined([table.step for _, table in there], np.int64)),
            "layer": pa.array(_joined([table.layer for _, table in there], np.int64)),
            "measure": pa.array(measures, pa.string()).dictionary_encode(),
            "value": pa.array(_joined([table.value for _, table in there], float), pa.float64(), from_pandas=False),
        }
    )


def _identity(owners: Sequence[TrialResult], lengths: Sequence[int]) -> dict[str, Any]:
    seeds = np.array([r.trial.seed for r in owners], np.int64)
    return {
        "trial": _words([r.trial.id for r in owners], lengths),
        "group": _words([r.trial.group for r in owners], lengths),
        "seed": pa.array(np.repeat(seeds, lengths)),
    }


def _words(words: Sequence[str], lengths: Sequence[int]) -> Any:
    """Each word as often as its length says."""
    codes = {word: code for code, word in enumerate(dict.fromkeys(words))}
    indices = np.repeat(np.array([codes[word] for word in words], np.int32), lengths)
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(list(codes), pa.string()))


def _joined(arrays: Sequence[NDArray[Any]], kind: Any) -> NDArray[Any]:
    return np.concatenate(arrays).astype(kind, copy=False) if arrays else np.empty(0, kind)
