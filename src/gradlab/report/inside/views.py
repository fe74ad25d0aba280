"""Views of the micro-world: a recording as panels, which are data, with captions.

A panel holds lines by layer, or unit × layer, for every inspected step. The page draws it with a slider over steps;
Markdown and print get the last step (`drawing.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradlab.audits.start import Gain, gain_of
from gradlab.report.inside.inspection import Inspection
from gradlab.report.inside.recording import Recording
from gradlab.spec.numerals import counted, written

VIEWS = {
    "signal_flow": "How large the activations of two networks are, layer by layer.",
    "gradient_flow": "The backprop signal δ, the activation x that enters, and their product, layer by layer.",
    "gradient_highway": "What reaches each layer from the output, with the skips and without their + x.",
    "one_input": "One input on its way through two networks: unit by layer.",
    "units": "Dead units and update ratios of two networks, layer by layer.",
}
"""What each view shows."""


@dataclass(frozen=True)
class PanelLine:
    """One line of a panel: values by place, for every inspection of its arm."""

    name: str
    arm: int
    values: tuple[tuple[float | None, ...], ...]
    faint: bool = False
    """Drawn thin and dashed: beside the main line."""


@dataclass(frozen=True)
class LinePanel:
    """Axes with lines."""

    title: str
    x_label: str
    y_label: str
    lines: tuple[PanelLine, ...]
    log: bool = True


@dataclass(frozen=True)
class UnitPanel:
    """One input on its way through an arm: unit × layer, for every inspection."""

    title: str
    arm: int
    values: tuple[Any, ...]


@dataclass(frozen=True)
class View:
    """A figure of the micro-world: its panels, and what to see in them, with this run's numbers."""

    name: str
    title: str
    caption: str
    panels: tuple[LinePanel, ...] = ()
    unit_panels: tuple[UnitPanel, ...] = ()


def make_views(recording: Recording) -> list[View]:
    """The views that the recording has numbers for."""
    found = [_signal(recording), _gradients(recording), _highway(recording), _journey(recording), _units(recording)]
    return [view for view in found if view is not None]


def _make_line(recording: Recording, arm: int, read: Any, name: str = "", faint: bool = False) -> PanelLine:
    values = tuple(tuple(_number(v) for v in np.atleast_1d(read(one))) for one in recording.inspections[arm])
    return PanelLine(name or recording.arms[arm], arm, values, faint)


def _number(value: Any) -> float | None:
    return float(f"{float(value):.5g}") if np.isfinite(value) else None


def _signal(recording: Recording) -> View:
    panels = tuple(
        LinePanel(
            recording.arms[arm], "layer", "|activation|",
            (
                _make_line(recording, arm, lambda one: one.signal[:, 4], "95 % lie below"),
                _make_line(recording, arm, lambda one: one.signal[:, 3], "75 %", True),
                _make_line(recording, arm, lambda one: one.signal[:, 2], "50 %", True),
                _make_line(recording, arm, lambda one: one.signal[:, 1], "25 %", True),
            ),
        )
        for arm in (0, 1)
    )  # fmt: skip
    ends = [_ends(recording, arm, lambda one: one.signal[:, 4]) for arm in (0, 1)]
    caption = (
        f"{_when(recording)}, the largest activations go {ends[0]} and {ends[1]}, from the first layer to the last. "
        "The lines are quantiles of |activation| over one batch."
    )
    return View("signal_flow", "Signal flow", caption, panels)


def _gradients(recording: Recording) -> View:
    kinds = (
        ("backprop signal δ", "rms of dL/dz", lambda one: one.delta),
        ("activation that enters", "rms of x", lambda one: one.entering),
        ("weight gradient, about δ × x", "rms of dL/dW", lambda one: one.gradient),
    )
    panels = tuple(
        LinePanel(title, "layer", label, tuple(_make_line(recording, arm, read) for arm in (0, 1)))
        for title, label, read in kinds
    )
    start = recording.inspections[0][0]
    kinds_at_start = (
        ("δ", start.delta),
        ("x", start.entering),
        ("their product, the weight gradient,", start.gradient),
    )
    parts = [f"{word} {_over(gain_of(np.asarray(values)))}" for word, values in kinds_at_start]
    caption = (
        f"Before training, from the first layer of {recording.arms[0]} to the last, {'; '.join(parts)}. A weight "
        "gradient is about δ × x: it can look alive, or flat, while each of them dies."
    )
    return View("gradient_flow", "Gradient flow", caption, panels)


def _highway(recording: Recording) -> View | None:
    if any(one.highway is None for arm in recording.inspections for one in arm):
        return None
    chain = LinePanel(
        "chain rule, from the output back", "layer", "largest singular value of ∂out/∂z",
        tuple(_make_line(recording, arm, lambda one: one.highway) for arm in (0, 1))
        + tuple(
            _make_line(recording, arm, lambda one: one.branches, f"{recording.arms[arm]}, without the + x", True)
            for arm in (0, 1) if _carries(recording.inspections[arm][0])
        ),
    )  # fmt: skip
    blocks = LinePanel(
        "every block's own Jacobian", "block", "singular values",
        tuple(_make_line(recording, arm, lambda one: one.gains[:, 1], f"{recording.arms[arm]}, rms") for arm in (0, 1))
        + tuple(
            _make_line(recording, arm, lambda one: one.gains[:, 0], f"{recording.arms[arm]}, largest", True)
            for arm in (0, 1)
        ),
    )  # fmt: skip
    spectrum = LinePanel(
        "end to end", "number, largest first", "singular values of ∂out/∂input",
        tuple(_make_line(recording, arm, lambda one: one.spectrum) for arm in (0, 1)),
    )  # fmt: skip
    parts = []
    for arm in (0, 1):
        start = recording.inspections[arm][0]
        assert start.highway is not None
        assert start.branches is not None
        words = f"{written(float(start.highway[0]), 2)} in {recording.arms[arm]}"
        if _carries(start):
            words += f" ({written(float(start.branches[0]), 2)} with the + x of every skip cut out)"
        parts.append(words)
    caption = (
        f"Before training, a change of the output reaches layer 1 multiplied by {' and '.join(parts)}: the largest "
        "singular value of the product of all Jacobians on the way."
    )
    return View("gradient_highway", "The gradient highway", caption, (chain, blocks, spectrum))


def _carries(one: Inspection) -> bool:
    """Whether a skip's identity term makes a difference."""
    return one.highway is not None and one.branches is not None and not np.allclose(one.highway, one.branches)


def _journey(recording: Recording) -> View:
    panels = tuple(
        UnitPanel(recording.arms[arm], arm, tuple(np.round(one.journey, 6) for one in recording.inspections[arm]))
        for arm in (0, 1)
    )
    last = [recording.inspections[arm][-1].journey for arm in (0, 1)]
    kept = [_share_above(rows[-1], 1e-3) for rows in last]
    caption = (
        f"{_when(recording)}, {100 * kept[0]:.0f} % of the units in the last layer of {recording.arms[0]} carry a "
        f"signal (above 0.001), {100 * kept[1]:.0f} % in {recording.arms[1]}. One input on its way: every column "
        "is a layer, every row a unit."
    )
    return View("one_input", "One input, layer by layer", caption, unit_panels=panels)


def _share_above(row: Any, size: float) -> float:
    """Of the units of a layer; a narrow layer's row is filled up with NaN at its end, which is no unit."""
    units = row[: np.flatnonzero(np.isfinite(row))[-1] + 1] if np.isfinite(row).any() else row
    return float(np.mean(np.abs(units) > size))


def _units(recording: Recording) -> View:
    dead = LinePanel(
        "dead units",
        "layer",
        "share",
        tuple(_make_line(recording, arm, lambda one: one.dead) for arm in (0, 1)),
        log=False,
    )
    parts = [
        f"{100 * float(np.mean(recording.inspections[arm][-1].dead)):.0f} % in {recording.arms[arm]}" for arm in (0, 1)
    ]
    panels = [dead]
    if any(one.update is not None for arm in recording.inspections for one in arm):
        moved = tuple(_make_line(recording, arm, _update) for arm in (0, 1))
        panels.append(LinePanel("update ratio", "layer", "‖ΔW‖/‖W‖ of the step before", moved))
    caption = (
        f"{_when(recording)}, {' and '.join(parts)} of all units are dead: their slope is 0 on the whole batch, so "
        "they give no gradient and get none."
    )
    return View("units", "Dead units and updates", caption, tuple(panels))


def _update(one: Inspection) -> Any:
    return np.full(len(one.delta), np.nan) if one.update is None else one.update


def _when(recording: Recording) -> str:
    return f"After {counted(recording.steps[-1], 'step')}" if recording.steps[-1] else "Before training"


def _ends(recording: Recording, arm: int, read: Any) -> str:
    values = read(recording.inspections[arm][-1])
    return f"from {written(float(values[0]), 2)} to {written(float(values[-1]), 2)} in {recording.arms[arm]}"


def _over(found: Gain | None) -> str:
    if found is None:
        return "has too few layers to tell"
    if found.in_all == 0:
        return "falls to exactly 0"
    if 0.1 <= found.in_all <= 10:
        return f"hardly changes (by a factor of {written(max(found.in_all, 1 / found.in_all), 2)})"
    way = "grows" if found.in_all > 1 else "falls"
    return f"{way} by a factor of {written(max(found.in_all, 1 / found.in_all), 2)}"
