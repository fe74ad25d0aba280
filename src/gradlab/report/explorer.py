"""Every layer measure of every group at every moment, for the reader to browse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradlab.analysis.measured import Measured
from gradlab.analysis.theory import predictions_of
from gradlab.report.layer_names import shorten_names
from gradlab.report.look import DASHES, MARKERS, Stroke, dark_colors
from gradlab.report.scheme import Scheme, make_scheme

MOST_NUMBERS, MOST_MOMENTS, MOST_LAYERS = 300_000, 24, 256
"""Of all groups together, so that the page stays small."""
FIRST = "grad_l2"
"""What is shown before the reader chooses, if it was measured."""
EDGES = ("center", "low", "high")
"""What the page gets of theory, which speaks of step 0 only."""


def make_explorer(measured: Measured, layers: Sequence[str] = ()) -> dict[str, Any] | None:
    """Medians over seeds by measure, group, moment and layer; None if the inside was not measured.

    Beside them, what theory expects before training: a line by layer with the band that holds 95 % of the seeds.
    Groups are named and drawn as in the figures; where these have panels, the reader chooses one.
    """
    names = sorted(measured.measures, key=lambda name: name != FIRST)
    if not names or max(measured.layer_count(group) for group in measured.group_names) > MOST_LAYERS:
        return None
    scheme = make_scheme(measured)
    groups = [group for group in measured.group_names if group in scheme]
    steps = sorted({step for group in groups for step in measured.moments(group)})[:MOST_MOMENTS]
    each = len(names) * (len(steps) + len(EDGES) * (0 in steps))
    while len(groups) > 2 and each * sum(measured.layer_count(group) for group in groups) > MOST_NUMBERS:
        groups = groups[::2]  # every second one, along every axis
    measures: list[dict[str, Any]] = [
        {
            "name": name,
            "label": measured.metric(name).label,
            "log": measured.metric(name).kind not in ("signed", "share"),
            "values": [[_medians(measured, name, group, step) for step in steps] for group in groups],
            "theory": [_theory(measured, name, group) if 0 in steps else None for group in groups],
        }
        for name in names
    ]
    return {
        "groups": [measured.names.group(group) for group in groups],
        "strokes": [_describe_stroke(scheme.strokes[group]) for group in groups],
        "tips": [scheme.tip(group) for group in groups],
        "panels": _panels(scheme, groups),
        "left_out": len(measured.group_names) - len(groups),
        "layers": list(layers),
        "short": list(shorten_names(layers)),
        "steps": steps,
        "measures": measures,
        "has_theory": any(any(measure["theory"]) for measure in measures),
    }


def _panels(scheme: Scheme, groups: list[str]) -> list[dict[str, Any]]:
    """The panels of the figures, each with the places of its groups; none where each would have one curve."""
    if scheme.ghosts or not scheme.facets:
        return []
    titles = list(dict.fromkeys(scheme.panel(group) for group in groups))
    return [
        {"title": title, "groups": [place for place, group in enumerate(groups) if scheme.panel(group) == title]}
        for title in titles
    ]


def _describe_stroke(stroke: Stroke) -> dict[str, Any]:
    """Colors for light and dark, and the place of dash and marker in the page's own lists."""
    return {
        "light": stroke.color,
        "dark": dark_colors()[stroke.color],
        "dash": DASHES.index(stroke.dashes),
        "marker": MARKERS.index(stroke.marker),
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


def _theory(measured: Measured, name: str, group: str) -> dict[str, list[float | None]] | None:
    """Center and band by layer, from the first; None if theory says nothing of this measure."""
    prediction = predictions_of(measured).get(group)
    forecasts = {} if prediction is None else dict(prediction.forecasts.get(name, {}))
    shown = {layer: one for layer, one in forecasts.items() if one.signed or one.center > 0}
    if not shown:
        return None
    rows = [shown.get(layer) for layer in range(1, measured.layer_count(group) + 1)]
    return {edge: [None if one is None else float(f"{getattr(one, edge):.4g}") for one in rows] for edge in EDGES}
