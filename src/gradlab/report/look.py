"""How figures look: a color-blind-safe palette that also survives gray, by marker and dash, in light and dark."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradlab.notices import say_once

INK, SOFT, GRID, WARNING = "#1f2933", "#66727f", "#e3e7eb", "#b91c1c"
GROUND, GHOST = "#ffffff", "#c9d0d7"
"""The ground of a figure; lines in the background of a small multiple."""
Dashes = str | tuple[int, tuple[float, ...]]


@dataclass(frozen=True)
class Stroke:
    """How one group is drawn."""

    color: str
    marker: str
    dashes: Dashes


HUES = ("#c2410c", "#0b5fa5", "#117a4f", "#8a3ffc", "#a16207", "#475569", "#be185d", "#0e7490")
DARK_HUES = ("#ff9a6b", "#7db8ee", "#6fcf9f", "#c4a1ff", "#e5b567", "#a9b6c6", "#f58bbd", "#67d0e0")
"""The same hues on a dark ground."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES: tuple[Dashes, ...] = (
    "-", (0, (5, 1.8)), (0, (1.2, 1.4)), (0, (6, 1.5, 1.5, 1.5)), (0, (3, 1, 1, 1)), (0, (8, 2, 2, 2)), (0, (5, 3)),
    (0, (1, 1)),
)  # fmt: skip
STROKES = tuple(
    Stroke(hue, marker, dashes)
    for hue, marker, dashes in zip(
        HUES, MARKERS, ("-", (0, (6, 1.6)), (0, (2, 1.2)), (0, (6, 1.5, 1.5, 1.5)), *DASHES[4:]), strict=True
    )
)
SHADES = (0.5, 0.32, 0.14, 0.0, -0.16, -0.3, -0.44)
"""Steps of lightness of a hue: how far towards white, or (negative) towards black."""
DARK = {INK: "#e6e9ec", SOFT: "#a3adb8", GRID: "#313a43", WARNING: "#ff8f86", GROUND: "#14181c", GHOST: "#4a545e"}
"""The neutral colors on a dark ground."""


def stroke(style: int | Stroke) -> Stroke:
    """A stroke as it is, or that of the group with this place in the study."""
    return style if isinstance(style, Stroke) else STROKES[style % len(STROKES)]


def mix(color: str, other: str, share: float) -> str:
    """A color with a share of another one."""
    mixed = [round((1 - share) * int(color[i : i + 2], 16) + share * int(other[i : i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{part:02x}" for part in mixed)


def shade(color: str, step: int) -> str:
    """A hue at one of the steps of lightness, light (0) to dark (6)."""
    amount = SHADES[step]
    return mix(color, "#ffffff" if amount > 0 else "#000000", abs(amount)) if amount else color


def shade_steps(count: int) -> tuple[int, ...]:
    """Which steps of lightness so many ordered levels get, the first the lightest."""
    if count <= 1:
        return (3,) * count
    first, last = (1, 5) if count < 4 else (0, len(SHADES) - 1)
    return tuple(round(first + (last - first) * index / (count - 1)) for index in range(count))


def dark_colors() -> dict[str, str]:
    """Every color that a figure may have, with its counterpart on a dark ground."""
    found = dict(DARK)
    for hue, bright in zip(HUES, DARK_HUES, strict=True):
        for step, amount in enumerate(
            SHADES
        ):  # the order of lightness is kept: the larger, the further from the ground
            pale = (
                mix(bright, DARK[GROUND], 0.5 * amount / SHADES[0]) if amount > 0 else mix(bright, "#ffffff", -amount)
            )
            found[shade(hue, step)] = pale
        found[hue] = bright
    return found


def plain(text: str) -> str:
    """A name as plain text: matplotlib would read a pair of dollars as mathematics."""
    return text.replace("$", r"\$")


def load_matplotlib() -> Any:
    """Matplotlib; a backend that the environment asks for and that does not exist is no reason to have no figures."""
    try:
        import matplotlib as mpl
    except ValueError:
        if "MPLBACKEND" not in os.environ:
            raise
        asked = os.environ.pop("MPLBACKEND")
        say_once(f"MPLBACKEND={asked!r} is not a backend of matplotlib and is ignored")
        for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
            del sys.modules[name]  # half loaded
        import matplotlib as mpl
    return mpl


def pt(size: float) -> float:
    """A size in points, scaled as the text of the figure that is being drawn."""
    return size * float(load_matplotlib().rcParams["font.size"]) / 10


@contextmanager
def look(scale: float = 1.0) -> Iterator[None]:
    """Matplotlib's settings for our figures, text and strokes scaled, and no display needed."""
    mpl = load_matplotlib()
    settings: dict[Any, Any] = {
        "figure.dpi": 110,
        "savefig.dpi": 144,
        "font.size": 10 * scale,
        "axes.titlesize": 11.5 * scale,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.labelcolor": INK,
        "axes.edgecolor": SOFT,
        "axes.linewidth": 0.8 * scale,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": GRID,
        "grid.linewidth": 0.8 * scale,
        "xtick.color": SOFT,
        "ytick.color": SOFT,
        "xtick.labelsize": 9 * scale,
        "ytick.labelsize": 9 * scale,
        "xtick.major.size": 3 * scale,
        "ytick.major.size": 3 * scale,
        "xtick.major.pad": 3 * scale,
        "ytick.major.pad": 3 * scale,
        "text.color": INK,
        "lines.linewidth": 1.8 * scale,
        "lines.markersize": 6 * scale,
        "legend.frameon": False,
        "legend.fontsize": 9 * scale,
        "svg.hashsalt": "gradlab",
        "svg.fonttype": "none",
        "pdf.fonttype": 42,  # TrueType: journals refuse Type 3
        "ps.fonttype": 42,
    }
    with mpl.rc_context(settings), np.errstate(all="ignore"):  # numbers near the largest overflow on a log axis
        yield
