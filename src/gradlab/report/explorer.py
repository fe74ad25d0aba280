"""Every layer measure of every group at every moment, for the reader to browse."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradlab.analysis.measured import Measured

MOST_GROUPS, MOST_MOMENTS, MOST_LAYERS = 8, 24, 256
FIRST = "grad_l2"
"""What is shown before the reader chooses, if it was measured."""


def make_explorer(measured: Measured) -> dict[str, Any] | None:
    """Medians over seeds by measure, group, moment and layer; None if the inside was not measured."""
    names = sorted(measured.measures, key=lambda name: name != FIRST)
    groups = measured.group_names[:MOST_GROUPS]
    if not names or max(measured.layer_count(group) for group in groups) > MOST_LAYERS:
        return None
    steps = sorted({step for group in groups for step in measured.moments(group)})[:MOST_MOMENTS]
    return {
        "groups": list(groups),
        "left_out": len(measured.group_names) - len(groups),
        "steps": steps,
        "measures": [
            {
                "name": name,
                "label": measured.metric(name).label,
                "log": measured.metric(name).kind not in ("signed", "share"),
                "values": [[_medians(measured, name, group, step) for step in steps] for group in groups],
            }
            for name in names
        ],
    }


def _medians(measured: Measured, name: str, group: str, step: int) -> list[float | None] | None:
    values = measured.profile(name, group, step).values
    if values.size == 0 or not np.isfinite(values).any():
        return None
    finite = np.where(np.isfinite(values), values, np.nan)
    there = np.isfinite(finite).any(0)
    medians = np.full(values.shape[1], np.nan)
    medians[there] = np.nanmedian(finite[:, there], axis=0)
    return [float(f"{v:.4g}") if np.isfinite(v) else None for v in medians]
