"""What every chart is: data with a title, labels, what to see and a note, that can draw its marks on axes."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gradlab.errors import InvalidInput
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
    def each_group(self) -> bool:
        """Whether every group has a panel of its own, however many there are."""
        return False

    @property
    def key(self) -> str:
        """The label of the key of colors beside the axes, of the first image drawn on them; empty if there is none."""
        return ""

    @property
    def text_rows(self) -> int:
        """Rows of text upon each other along the y axis, which decide how tall it has to be; 0: any height will do."""
        return 0

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

    def line_ends(self) -> tuple[End, ...]:
        """Where names may stand at the ends of lines; empty if the chart has no such lines."""
        return ()

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


@dataclass(frozen=True)
class Panels(Chart):
    """Charts in a grid, each under its own title.

    Facets of one figure share labels, and their axes if `same_x` or `same_y`; views of different things have
    `own_labels`.
    """

    charts: tuple[Chart, ...]
    by: str = "panel"
    """What the panels differ in, in the table."""
    same_x: bool = False
    same_y: bool = True
    own_labels: bool = False

    @property
    def panels(self) -> tuple[Chart, ...]:
        """Each chart on axes of its own."""
        return self.charts

    @property
    def key(self) -> str:
        """One key for all panels: they have the same scale."""
        return next((chart.key for chart in self.charts if chart.key), "")

    def draw_marks(self, ax: Any) -> None:
        """Several panels need a figure of their own."""
        raise InvalidInput(
            f"{self.title!r} has {len(self.charts)} panels, which need a figure of their own; leave out ax, or choose "
            "groups for one panel"
        )

    def with_layers(self, names: Sequence[str]) -> Chart:
        """Every panel with them."""
        charts = tuple(chart.with_layers(names) for chart in self.charts)
        same = all(new is old for new, old in zip(charts, self.charts, strict=True))
        return self if same else replace(self, charts=charts, x_label=charts[0].x_label, y_label=charts[0].y_label)

    def table(self) -> Rows:
        """The rows of all panels, each with its panel's title."""
        header: tuple[str, ...] = ()
        rows: list[tuple[Any, ...]] = []
        for chart in self.charts:
            own, found = chart.table()
            header = header or own
            rows += [(chart.title, *row) for row in found]
        return (self.by, *header), rows

    def describe(self) -> str:
        """Panel by panel."""
        return " ".join(f"{chart.title}: {chart.describe()}" for chart in self.charts)


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


def draw_column(ax: Any, place: float, values: Numbers, style: Stroke, **marks: Any) -> None:
    """The values of all seeds as dots above each other."""
    marks = {"markersize": pt(5), "alpha": 0.6, "zorder": 2, **marks}
    ax.plot(np.full(len(values), place), values, linestyle="none", marker=style.marker, color=style.color, **marks)


def lift_zeros(values: Numbers, floor: float | None) -> Numbers:
    """Exact zeros on the floor of a log axis, where they can be seen."""
    return values if floor is None else np.where(values == 0, floor, values)


# Names of modules on axes: short enough to be read, and as many as there is room for.

LAYER, MODULE = "layer", "module"
"""What the axis is called: layers have numbers, modules have names."""
MOST, MOST_IN_PANELS = 16, 5
"""Names along an axis; the modules between them have a place and no name."""
LONGEST_MODULE = 20
"""Characters of a name on an axis."""
BEFORE_NUMBER = re.compile(r"^\D*\.(?=\d)")


def common_names(by_group: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the modules that are layers 1, 2, …; nothing if they differ between groups."""
    found = {tuple(names) for names in by_group.values()}
    return found.pop() if len(found) == 1 else ()


def shorten_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return names that are short and still differ: `encoder.layers.0.linear1` becomes `…0.linear1`.

    What stands before the first number is left out of long names if several share it. Names that are still too long
    lose their middle; one that would no longer be unique stays as it is.
    """
    begins = Counter(found[0] for name in names if (found := BEFORE_NUMBER.match(name)))
    short = []
    for name in names:
        begin = BEFORE_NUMBER.match(name)
        if begin is not None and len(name) > LONGEST_MODULE and begins[begin[0]] > 1:
            name = f"…{name[begin.end() :]}"
        short.append(name if len(name) <= LONGEST_MODULE else f"{name[:6]}…{name[-(LONGEST_MODULE - 7) :]}")
    times = Counter(short)
    return tuple(own if times[own] == 1 else name for own, name in zip(short, names, strict=True))


def ticks_of(names: Sequence[str], most: int = MOST) -> list[tuple[int, str]]:
    """Return places, from 1, and names for an axis: all, or some at equal distances, and the last."""
    step = max(1, -(-(len(names) - 1) // (most - 1)))
    places = [*range(0, len(names) - step, step), len(names) - 1]
    short = shorten_names(names)
    return [(place + 1, short[place]) for place in places]
