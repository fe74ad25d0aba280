"""What every chart is: data with a title, labels, what to see and a note, that can draw its marks on axes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gradlab.report.look import GROUND, SOFT, Stroke, plain, pt, stroke

if TYPE_CHECKING:
    from gradlab.report.scheme import Scheme

Numbers = NDArray[np.float64]
Rows = tuple[tuple[str, ...], list[tuple[Any, ...]]]
"""A header and rows."""
Level = tuple[float, str]
"""A horizontal reference line: its value and its name."""
LONGEST = 62
"""Characters in a name of the legend."""


@dataclass(frozen=True)
class Points:
    """Published numbers, drawn as hollow stars in the color of their group; `label` explains the star."""

    label: str
    x: Numbers
    y: Numbers
    style: int | Stroke
    group: str = ""


@dataclass(frozen=True)
class End:
    """The end of a line, where its name may stand."""

    label: str
    x: float
    y: float
    color: str


@dataclass(frozen=True)
class Chart(ABC):
    """Title, labels and a note; each kind of chart draws its own marks."""

    title: str
    x_label: str
    y_label: str
    note: str = field(default="", kw_only=True)
    """One line below the axes: what the marks are, what was left out."""
    warning: str = field(default="", kw_only=True)
    """Why the comparison must not be trusted; shown above the note, in red. Empty for a fair one."""
    finding: str = field(default="", kw_only=True)
    """What to see in it, in one sentence with this run's numbers; the caption begins with it."""
    left_out: str = field(default="", kw_only=True)
    """Which groups it does not show; empty if it shows all."""
    tips: tuple[tuple[str, str], ...] = field(default=(), kw_only=True)
    """(name in the legend, full settings), shown by a tooltip."""

    @property
    def full_note(self) -> str:
        """Warning, note and what is left out, one below the other."""
        return "\n".join(text for text in (self.warning, self.note, self.left_out) if text)

    @property
    def caption(self) -> str:
        """What to see, and which groups are not shown; what the marks are stands in the picture."""
        parts = (self.warning, self.finding or f"{self.title}.", self.left_out)
        return " ".join(_sentence(text) for text in parts if text)

    @property
    def panels(self) -> tuple[Chart, ...]:
        """The charts that are drawn on axes of their own; of most kinds the chart itself."""
        return (self,)

    @property
    def along(self) -> str:
        """The path of a setting that the x axis is; empty if it is none."""
        return ""

    @property
    def shares(self) -> tuple[bool, bool]:
        """Whether all panels have the same x axis, and the same y axis."""
        return False, False

    @property
    def each_group(self) -> bool:
        """Whether every group has a panel of its own, however many there are."""
        return False

    def arranged(self, scheme: Scheme) -> Chart:
        """The chart with the scheme's names, strokes and panels; of most kinds nothing changes."""
        return self

    def with_layers(self, names: Sequence[str]) -> Chart:
        """The chart with the names of modules along its axis of layers; of charts without such an axis the same."""
        return self

    @abstractmethod
    def draw_marks(self, ax: Any) -> None:
        """Draw lines, boxes or other marks on the axes, without title, labels and note."""

    def finish(self, ax: Any) -> None:  # noqa: B027 - most charts have nothing to add
        """Write what depends on where the axes stand: called after the layout."""

    @property
    def text_rows(self) -> int:
        """Rows of text upon each other along the y axis, which decide how tall it has to be; 0: any height will do."""
        return 0

    def line_ends(self) -> tuple[End, ...]:
        """Where names may stand at the ends of lines; empty if the chart has no such lines."""
        return ()

    def draw_key(self, ax: Any) -> str:
        """Draw the key of colors on narrow axes and return its label; see `has_key`."""
        return ""

    @property
    def has_key(self) -> bool:
        """Whether there is a key of colors beside the axes."""
        return False

    @abstractmethod
    def table(self) -> Rows:
        """Everything the chart shows, as a header and rows."""

    @abstractmethod
    def describe(self) -> str:
        """The numbers that a reader who cannot see the chart needs."""

    @property
    def description(self) -> str:
        """The alternative text of the picture."""
        return f"{self.title}: {self.y_label} against {self.x_label}. {self.describe()}"


def _sentence(text: str) -> str:
    """The text with a capital at its start and a full stop at its end; a symbol at its start stays as it is."""
    first = text[0].upper() if text[0].isascii() else text[0]
    return f"{first}{text[1:]}" if text.endswith((".", "!", "?")) else f"{first}{text[1:]}."


def legend_text(label: str) -> str:
    """A name as matplotlib shows it: short enough, and not hidden for its underscore."""
    text = plain(label if len(label) <= LONGEST else label[: LONGEST - 1] + "…")
    return f" {text}" if text.startswith("_") else text


def draw_points(groups: Sequence[Points], ax: Any) -> None:
    """Stars in the color of their group; one neutral star explains them all."""
    star = {"marker": "*", "linestyle": "none", "markersize": pt(12), "markerfacecolor": GROUND, "zorder": 5}
    for points in groups:
        ax.plot(points.x, points.y, color=stroke(points.style).color, **star)
    if groups:
        ax.plot([], [], color=SOFT, label=groups[0].label, **star)


def draw_levels(levels: Sequence[Level], ax: Any, color: str = SOFT) -> None:
    """Dotted lines at values that mean something; their names stand in the legend, where they hide nothing."""
    dots = ((0, (1, 2)), (0, (3, 2, 1, 2)), (0, (6, 2)))
    for index, (value, name) in enumerate(levels):
        ax.axhline(value, color=color, linewidth=pt(1.1), linestyle=dots[index % 3], label=legend_text(name), zorder=1)
