"""How figures look: a color-blind-safe palette that also survives gray, by marker and dash."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from gradlab.notices import say_once

INK, SOFT, GRID, WARNING = "#1f2933", "#66727f", "#e3e7eb", "#b91c1c"


@dataclass(frozen=True)
class Stroke:
    """How one group is drawn in every figure."""

    color: str
    marker: str
    dashes: str | tuple[int, tuple[float, ...]]


STROKES = (
    Stroke("#c2410c", "o", "-"),
    Stroke("#0b5fa5", "s", (0, (6, 1.6))),
    Stroke("#117a4f", "^", (0, (2, 1.2))),
    Stroke("#8a3ffc", "D", (0, (6, 1.5, 1.5, 1.5))),
    Stroke("#a16207", "v", (0, (1, 1))),
    Stroke("#475569", "P", (0, (8, 2, 2, 2))),
    Stroke("#be185d", "X", (0, (3, 1, 1, 1))),
    Stroke("#0e7490", "*", (0, (5, 3))),
)


def stroke(index: int) -> Stroke:
    """The stroke of the group with this place in the study."""
    return STROKES[index % len(STROKES)]


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


@contextmanager
def look() -> Iterator[None]:
    """Matplotlib's settings for our figures, and no display needed."""
    mpl = load_matplotlib()
    settings: dict[Any, Any] = {
        "figure.dpi": 110,
        "savefig.dpi": 160,
        "font.size": 10,
        "axes.titlesize": 11.5,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.labelcolor": INK,
        "axes.edgecolor": SOFT,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": GRID,
        "grid.linewidth": 0.8,
        "xtick.color": SOFT,
        "ytick.color": SOFT,
        "text.color": INK,
        "lines.linewidth": 1.8,
        "legend.frameon": False,
        "legend.fontsize": 9,
        "svg.hashsalt": "gradlab",
        "svg.fonttype": "none",
    }
    with mpl.rc_context(settings):
        yield
