"""Results as three tidy tables. NaN, +inf, −inf and missing (null) stay four different things."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from gradlab.execute.base import TrialResult

_IDENTITY = ("trial", "group", "seed")


def trials_table(results: Iterable[TrialResult]) -> Any:
    """One row per trial: what it is, how it ended, its metrics."""
    results = list(results)
    names = list(dict.fromkeys(name for r in results if r.outcome for name in r.outcome.metrics))
    columns: dict[str, Any] = {
        "trial": pa.array([r.trial.id for r in results], pa.string()),
        "group": pa.array([r.trial.group for r in results], pa.string()),
        "seed": pa.array([r.trial.seed for r in results], pa.int64()),
        "status": pa.array([r.status for r in results], pa.string()),
        "error": pa.array([r.error for r in results], pa.string()),
    }
    for name in names:
        values = [r.outcome.metrics.get(name) if r.outcome else None for r in results]
        columns[name] = pa.array([None if v is None else float(v) for v in values], pa.float64(), from_pandas=False)
    return pa.table(columns)


def curves_table(results: Iterable[TrialResult]) -> Any:
    """One row per trial, metric and step at which it was taken."""
    parts = [
        pa.table(
            {
                **_identity(r, len(curve.steps)),
                "metric": _repeated(curve.metric, len(curve.steps)),
                "step": pa.array(curve.steps.astype(np.int64)),
                "value": pa.array(curve.values, pa.float64(), from_pandas=False),
            }
        )
        for r in results
        if r.outcome
        for curve in r.outcome.curves
    ]
    return _joined(parts, {"metric": pa.string(), "step": pa.int64(), "value": pa.float64()})


def layers_table(results: Iterable[TrialResult]) -> Any:
    """One row per trial, step, layer and measure."""
    parts = [
        pa.table(
            {
                **_identity(r, len(table.step)),
                "step": pa.array(table.step.astype(np.int64)),
                "layer": pa.array(table.layer.astype(np.int64)),
                "measure": pa.array(table.measure, pa.string()),
                "value": pa.array(table.value, pa.float64(), from_pandas=False),
            }
        )
        for r in results
        if r.outcome
        for table in [r.outcome.layers]
    ]
    names = {"step": pa.int64(), "layer": pa.int64(), "measure": pa.string(), "value": pa.float64()}
    return _joined(parts, names)


def _identity(result: TrialResult, rows: int) -> dict[str, Any]:
    trial = result.trial
    return {
        "trial": _repeated(trial.id, rows),
        "group": _repeated(trial.group, rows),
        "seed": pa.array(np.full(rows, trial.seed, np.int64)),
    }


def _repeated(text: str, rows: int) -> Any:
    return pa.repeat(pa.scalar(text, pa.string()), rows)


def _joined(parts: list[Any], names: dict[str, Any]) -> Any:
    if parts:
        return pa.concat_tables(parts).combine_chunks()
    types = {"trial": pa.string(), "group": pa.string(), "seed": pa.int64(), **names}
    return pa.table({name: pa.array([], kind) for name, kind in types.items()})
