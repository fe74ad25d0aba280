"""The micro-world in pictures: what a film shows, as panels that the page animates and a figure that stands still.

A panel is data: lines by layer (or heat) for every frame. The page draws it with a slider over steps; Markdown and
print get the last frame, drawn by matplotlib.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradlab.audits.start import Gain, gain_of
from gradlab.report.draw import canvas_of
from gradlab.report.inside.explanation import Diagnosis
from gradlab.report.inside.film import Film
from gradlab.report.inside.frame import Frame
from gradlab.report.log_axis import log_y
from gradlab.report.look import INK, SOFT, look, plain, stroke

SCENES = ("signal_flow", "gradient_flow", "gradient_highway", "one_input", "units")


@dataclass(frozen=True)
class Trace:
    """One line of a panel: values by place, for every frame of its arm."""

    name: str
    arm: int
    frames: tuple[tuple[float | None, ...], ...]
    faint: bool = False
    """Drawn thin and dashed: beside the main line."""


@dataclass(frozen=True)
class Panel:
    """Axes with curves."""

    title: str
    x_label: str
    y_label: str
    curves: tuple[Trace, ...]
    log: bool = True


@dataclass(frozen=True)
class Heat:
    """One input on its way through an arm: unit × layer, for every frame."""

    title: str
    arm: int
    frames: tuple[Any, ...]


@dataclass(frozen=True)
class Scene:
    """A picture of the micro-world: its panels, and what to see in them, with this run's numbers."""

    name: str
    title: str
    caption: str
    panels: tuple[Panel, ...] = ()
    heats: tuple[Heat, ...] = ()


def scenes(film: Film) -> list[Scene]:
    """The pictures that the film has numbers for."""
    found = [_signal(film), _gradients(film), _highway(film), _journey(film), _units(film)]
    return [scene for scene in found if scene is not None]


def steps_of(film: Film) -> list[int]:
    """The steps of the frames; arms of another budget stop at their own last frame."""
    return [one.step for one in max(film.frames, key=len)]


def _curve(film: Film, arm: int, read: Any, name: str = "", faint: bool = False) -> Trace:
    frames = tuple(tuple(_number(v) for v in np.atleast_1d(read(one))) for one in film.frames[arm])
    return Trace(name or film.arms[arm], arm, frames, faint)


def _number(value: Any) -> float | None:
    return float(f"{float(value):.5g}") if np.isfinite(value) else None


def _signal(film: Film) -> Scene:
    panels = tuple(
        Panel(
            film.arms[arm], "layer", "|activation|",
            (
                _curve(film, arm, lambda one: one.signal[:, 4], "95 % lie below"),
                _curve(film, arm, lambda one: one.signal[:, 3], "75 %", True),
                _curve(film, arm, lambda one: one.signal[:, 2], "50 %", True),
                _curve(film, arm, lambda one: one.signal[:, 1], "25 %", True),
            ),
        )
        for arm in (0, 1)
    )  # fmt: skip
    ends = [_ends(film, arm, lambda one: one.signal[:, 4]) for arm in (0, 1)]
    caption = (
        "Signal flow: how large the activations of one batch are, layer by layer (95 % of them lie below the top "
        "line). "
        f"At the last frame, from the first layer to the last: {ends[0]}; {ends[1]}."
    )
    return Scene("signal_flow", "Signal flow", caption, panels)


def _gradients(film: Film) -> Scene:
    kinds = (
        ("backprop signal δ", "rms of dL/dz", lambda one: one.delta),
        ("activation that enters", "rms of x", lambda one: one.entering),
        ("weight gradient, about δ × x", "rms of dL/dW", lambda one: one.gradient),
    )
    panels = tuple(
        Panel(title, "layer", label, tuple(_curve(film, arm, read) for arm in (0, 1))) for title, label, read in kinds
    )
    start = film.frames[0][0]
    told = []
    product = "their product, the weight gradient,"
    for word, values in (("δ", start.delta), ("x", start.entering), (product, start.gradient)):
        told.append(f"{word} {_over(gain_of(np.asarray(values)))}")
    caption = (
        "Gradient flow: a weight gradient is a product of the backprop signal δ and of the activation that enters the "
        "layer, so it can look alive, or flat, while each of them dies. Before training, from the first layer to "
        "the last of "
        f"{film.arms[0]}, {'; '.join(told)}."
    )
    return Scene("gradient_flow", "Gradient flow", caption, panels)


def _highway(film: Film) -> Scene | None:
    if any(one.highway is None for arm in film.frames for one in arm):
        return None
    chain = Panel(
        "chain rule, from the output back", "layer", "largest singular value of ∂out/∂z",
        tuple(_curve(film, arm, lambda one: one.highway) for arm in (0, 1))
        + tuple(
            _curve(film, arm, lambda one: one.branches, f"{film.arms[arm]}, without the + x", True)
            for arm in (0, 1) if _carries(film.frames[arm][0])
        ),
    )  # fmt: skip
    blocks = Panel(
        "every block's own Jacobian", "block", "singular values",
        tuple(_curve(film, arm, lambda one: one.gains[:, 1], f"{film.arms[arm]}, rms") for arm in (0, 1))
        + tuple(_curve(film, arm, lambda one: one.gains[:, 0], f"{film.arms[arm]}, largest", True) for arm in (0, 1)),
    )  # fmt: skip
    spectrum = Panel(
        "end to end", "number, largest first", "singular values of ∂out/∂input",
        tuple(_curve(film, arm, lambda one: one.spectrum) for arm in (0, 1)),
    )  # fmt: skip
    told = []
    for arm in (0, 1):
        start = film.frames[arm][0]
        assert start.highway is not None
        assert start.branches is not None
        words = f"{film.arms[arm]} {start.highway[0]:.2g}"
        if _carries(start):
            words += f" ({start.branches[0]:.2g} without the + x)"
        told.append(words)
    caption = (
        "The gradient highway: the product of all Jacobians between the output and a layer, as a whole and with "
        "the identity "
        f"term of every skip cut out. Before training it reaches layer 1 with {'; '.join(told)}."
    )
    return Scene("gradient_highway", "The gradient highway", caption, (chain, blocks, spectrum))


def _carries(one: Frame) -> bool:
    """Whether a skip's identity term makes a difference."""
    return one.highway is not None and one.branches is not None and not np.allclose(one.highway, one.branches)


def _journey(film: Film) -> Scene:
    heats = tuple(
        Heat(film.arms[arm], arm, tuple(np.round(one.journey, 6) for one in film.frames[arm])) for arm in (0, 1)
    )
    last = [film.frames[arm][-1].journey for arm in (0, 1)]
    kept = [_share_above(rows[-1], 1e-3) for rows in last]
    caption = (
        "One input on its way: every column is a layer, every row a unit. At the last frame "
        f"{100 * kept[0]:.0f} % of the units of the last layer carry a signal (above .001) in {film.arms[0]}, "
        f"{100 * kept[1]:.0f} % in {film.arms[1]}."
    )
    return Scene("one_input", "One input, layer by layer", caption, heats=heats)


def _share_above(row: Any, size: float) -> float:
    """Of the units of a layer; a narrow layer's row is filled up with NaN at its end, which is no unit."""
    units = row[: np.flatnonzero(np.isfinite(row))[-1] + 1] if np.isfinite(row).any() else row
    return float(np.mean(np.abs(units) > size))


def _units(film: Film) -> Scene:
    dead = Panel(
        "dead units", "layer", "share", tuple(_curve(film, arm, lambda one: one.dead) for arm in (0, 1)), log=False
    )
    told = [f"{100 * float(np.mean(film.frames[arm][-1].dead)):.0f} % in {film.arms[arm]}" for arm in (0, 1)]
    panels = [dead]
    if any(one.update is not None for arm in film.frames for one in arm):
        moved = tuple(_curve(film, arm, _update) for arm in (0, 1))
        panels.append(Panel("update ratio", "layer", "‖ΔW‖/‖W‖ of the step before", moved))
    caption = (
        "Units whose slope is 0 on the whole batch give no gradient and get none. At the last frame, over all layers: "
        f"{' and '.join(told)}."
    )
    return Scene("units", "Dead units and updates", caption, tuple(panels))


def _update(one: Frame) -> Any:
    return np.full(len(one.delta), np.nan) if one.update is None else one.update


def _ends(film: Film, arm: int, read: Any) -> str:
    values = read(film.frames[arm][-1])
    return f"{film.arms[arm]} {values[0]:.2g} to {values[-1]:.2g}"


def _over(found: Gain | None) -> str:
    if found is None:
        return "has too few layers to tell"
    if found.in_all == 0:
        return "falls to exactly 0"
    if 0.1 <= found.in_all <= 10:
        return f"hardly changes ({max(found.in_all, 1 / found.in_all):.1f}×)"
    way = "grows" if found.in_all > 1 else "falls"
    return f"{way} by {max(found.in_all, 1 / found.in_all):.1e}"


# ---------------------------------------------------------------------- standing still


def draw_scene(scene: Scene, film: Film) -> Any:
    """The last frame as a matplotlib figure."""
    count = len(scene.panels) or len(scene.heats)
    with look():
        canvas = canvas_of(4.1 * count, 4.3)
        canvas.suptitle(plain(f"{scene.title}, {_moment(steps_of(film)[-1])}"), x=0.01, ha="left", fontweight="bold")
        if scene.heats:
            _draw_heats(scene.heats, canvas)
        for index, panel in enumerate(scene.panels):
            _draw_panel(panel, canvas.add_subplot(1, count, index + 1))
        return canvas


def scene_rows(scene: Scene, film: Film) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """All that a scene shows, at every frame: a header and rows."""
    rows: list[tuple[Any, ...]] = []
    for panel in scene.panels:
        for curve in panel.curves:
            for one, values in zip(film.frames[curve.arm], curve.frames, strict=True):
                rows += [(panel.title, curve.name, one.step, place, v) for place, v in enumerate(values, 1)]
    if scene.panels:
        return ("panel", "line", "step", "place", "value"), rows
    for heat in scene.heats:
        for one, layers in zip(film.frames[heat.arm], heat.frames, strict=True):
            rows += [
                (heat.title, one.step, layer, unit, float(value))
                for layer, row in enumerate(layers, 1)
                for unit, value in enumerate(row, 1)
                if not np.isnan(value)
            ]
    return ("arm", "step", "layer", "unit", "value"), rows


def _moment(step: int) -> str:
    return f"after {step:,} step{'' if step == 1 else 's'}" if step else "at initialization"


def _draw_panel(panel: Panel, ax: Any) -> None:
    smallest = [v for curve in panel.curves for v in curve.frames[-1] if v is not None and v > 0]
    floor = min(smallest) / 10 if smallest and panel.log else None
    for curve in panel.curves:
        s = stroke(curve.arm)
        y = [np.nan if v is None else floor if floor is not None and v <= 0 else v for v in curve.frames[-1]]
        style: Any = {"linewidth": 1.0, "alpha": 0.7, "linestyle": ":"} if curve.faint else {"linestyle": s.dashes}
        style |= {"color": s.color, "marker": None if curve.faint else s.marker, "markersize": 3.5}
        ax.plot(range(1, len(y) + 1), y, label=plain(curve.name), **style)
    if panel.log and smallest:
        log_y(ax)
        if floor is not None and any(v == 0 for curve in panel.curves for v in curve.frames[-1]):
            ax.axhline(floor, color=INK, linewidth=0.8)
            place: Any = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "ha": "right"}
            ax.annotate("exactly 0", (1, floor), (-2, 3), fontsize=7.5, **place)
    ax.set_title(plain(panel.title), fontsize=10)
    ax.set_xlabel(panel.x_label)
    ax.set_ylabel(panel.y_label)
    ax.legend(fontsize=7.5, loc="upper left", bbox_to_anchor=(-0.02, -0.2), borderaxespad=0)  # below: it hides nothing


def _draw_heats(heats: Sequence[Heat], canvas: Any) -> None:
    last = [heat.frames[-1] for heat in heats]
    limit = max(float(np.nanquantile(np.abs(rows), 0.99)) for rows in last) or 1.0
    axes = canvas.subplots(1, len(heats), squeeze=False)[0]
    for heat, rows, ax in zip(heats, last, axes, strict=True):
        extent = (0.5, len(rows) + 0.5, rows.shape[1] + 0.5, 0.5)
        scale: Any = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit, "interpolation": "nearest"}
        image = ax.imshow(rows.T, aspect="auto", extent=extent, **scale)
        ax.set_title(plain(heat.title), fontsize=10)
        ax.set_xlabel("layer")
        ax.set_ylabel("unit")
        ax.grid(visible=False)
    bar = canvas.colorbar(image, ax=axes, pad=0.02)
    bar.ax.tick_params(labelsize=8, colors=SOFT)


def diagnosis_lines(found: Sequence[Diagnosis]) -> list[str]:
    """The diagnosis of each arm as a sentence."""
    return [one.words.strip() for one in found]


__all__ = ["Frame", "Heat", "Panel", "Scene", "diagnosis_lines", "draw_scene", "scenes", "steps_of"]
