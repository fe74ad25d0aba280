"""How the groups of a study are told apart in figures: hue, lightness, dash, and small multiples.

The main factor gets the hue, an axis of ordered values the lightness, a second factor the dash. More than four curves
go to small multiples, by the axis with most ordered values first. Every group is shown; where a study has more panels
than fit on a page, the extremes of the headline and the groups that claims name are, and the note says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Any, TypeVar

from gradlab.analysis.comparison import ranked
from gradlab.analysis.measured import Measured
from gradlab.errors import InvalidInput, StudyError
from gradlab.report.look import DASHES, HUES, MARKERS, Stroke, shade, shade_steps
from gradlab.spec.naming import Names, is_number
from gradlab.spec.paths import label
from gradlab.spec.selection import chosen

if TYPE_CHECKING:
    from gradlab.report.charts import Line

AnyLine = TypeVar("AnyLine", bound="Line")
MOST_CURVES, MOST_PANELS = 4, 16
ORDERED = 1
"""The hue of ordered levels."""
ARM = "arm"
"""Stands for the path of groups with names of their own."""


@dataclass(frozen=True)
class Scheme:
    """Strokes, names and panels of the groups that a figure shows."""

    names: Names
    strokes: Mapping[str, Stroke]
    facets: tuple[str, ...] = ()
    """Paths that panels differ in."""
    ghosts: bool = False
    """Whether each panel shows the others in gray: panels of one curve each."""
    said: frozenset[str] = field(default_factory=frozenset)
    """Paths that need not be said in a curve's name: panels, and what the x axis is."""
    left_out: str = ""
    """Which groups are not shown; empty if all are."""

    def __contains__(self, group: object) -> bool:
        return group in self.strokes

    def label(self, group: str) -> str:
        """A curve's name, without what the panel's title says."""
        if ARM in self.facets:
            return self.names.group(group)
        return self.names.group(group, self.said) or self.names.group(group)

    def tip(self, group: str) -> str:
        """All settings of a group."""
        return self.names.settings(group)

    def panel(self, group: str) -> str:
        """The title of the panel that a group is in; empty if there is only one."""
        if ARM in self.facets:
            return self.names.group(group)
        settings = self.names.groups[group].settings
        return ", ".join(self.names.level(path, settings[path]) for path in self.facets if path in settings)

    @property
    def facet_name(self) -> str:
        """What panels differ in, as a column of a table."""
        return ", ".join(self.names.axis(path) for path in self.facets) or "panel"

    def restyle(self, line: AnyLine) -> AnyLine:
        """A line with its group's name and stroke."""
        return replace(line, label=self.label(line.group), style=self.strokes[line.group])


def make_scheme(
    measured: Measured, facet: str | None = None, color: str | None = None, along: str = "", *, each: bool = False
) -> Scheme:
    """The scheme of a study's groups.

    facet, color: the settings that a user wants to make panels and to give the hue.
    along: the path that the x axis is; each: every group gets a panel of its own.
    """
    if each:
        if facet or color:
            raise InvalidInput("facet and color do not apply: in this figure every group has a panel of its own")
        shown, left_out = _choose_panels(measured, (ARM,))
        return Scheme(measured.names, {name: Stroke(HUES[0], MARKERS[0], "-") for name in shown}, left_out=left_out)
    names = measured.names
    if along or facet or color:  # a curve may then stand for several arms, and is named by what they share
        names = names.by_settings
    facet, color = _path_of(names, facet, along, "facet"), _path_of(names, color, along, "color")
    free = [path for path in names.axes if path != along]
    if names.arms and facet is None and color is None:
        return _scheme_of_arms(measured)
    hue = color or _main_factor(measured, names, [path for path in free if path != facet])
    inside = [path for path in free if path not in (hue, facet)]
    facets = [facet] if facet is not None else []
    if facet is None:
        inside, facets = _split(names, hue, inside)
    ghosts = facet is None and not facets and hue is not None and len(names.axes[hue]) > MOST_CURVES
    if ghosts and hue is not None:
        facets = [hue]
    strokes = {name: _stroke(names, name, hue, inside) for name in names.groups}
    groups, left_out = _choose_panels(measured, tuple(facets))
    return Scheme(
        names, {name: strokes[name] for name in groups}, tuple(facets), ghosts,
        frozenset((*facets, along)), left_out,
    )  # fmt: skip


def _path_of(names: Names, word: str | None, along: str, what: str) -> str | None:
    """The path that a user names for panels or for the hue."""
    if word is None:
        return None
    path = names.path(word)
    if path == along:
        raise InvalidInput(f"{what}: {word!r} is already the x axis of this figure; choose another setting")
    return path


def _scheme_of_arms(measured: Measured) -> Scheme:
    groups = measured.group_names
    strokes = {
        name: Stroke(HUES[i % len(HUES)], MARKERS[i % len(MARKERS)], DASHES[(i + i // len(HUES)) % len(DASHES)])
        for i, name in enumerate(groups)
    }
    if len(groups) <= MOST_CURVES:
        return Scheme(measured.names, strokes)
    shown, left_out = _choose_panels(measured, (ARM,))
    return Scheme(measured.names, {name: strokes[name] for name in shown}, (ARM,), True, left_out=left_out)


def _main_factor(measured: Measured, names: Names, free: Sequence[str]) -> str | None:
    """The first declared factor that has words as levels, or else the first axis of words, or else any."""
    axes = names.axes
    words = [path for path in free if not all(map(is_number, axes[path]))]
    declared = [path for path in measured.study.factor if path in free]
    return next(iter([*(path for path in declared if path in words), *words, *declared, *free]), None)


def _split(names: Names, hue: str | None, inside: list[str]) -> tuple[list[str], list[str]]:
    """Move axes from curves to panels until a panel has at most four curves: ordered ones first, then the last."""
    facets: list[str] = []
    inside = list(inside)
    colors = len(names.axes[hue]) if hue is not None else 1
    while inside and colors * prod(len(names.axes[path]) for path in inside) > MOST_CURVES:
        ordered = [path for path in inside if all(map(is_number, names.axes[path]))]
        moved = max(ordered, key=lambda path: len(names.axes[path])) if ordered else inside[-1]
        inside.remove(moved)
        facets.append(moved)
    return inside, facets


def _stroke(names: Names, group: str, hue: str | None, inside: Sequence[str]) -> Stroke:
    """Hue by the main factor, lightness by ordered levels, dash by other ones, a marker for each combination."""
    settings = names.groups[group].settings
    color, dash, mark = HUES[0], 0, 0
    step: int | None = None
    if hue is not None and hue in settings:
        place = _place(names, hue, settings[hue])
        if all(map(is_number, names.axes[hue])):
            color, step = HUES[ORDERED], shade_steps(len(names.axes[hue]))[place]
        else:
            color = HUES[place % len(HUES)]
        mark = place
    for path in inside:
        place, count = _place(names, path, settings[path]), len(names.axes[path])
        if all(map(is_number, names.axes[path])) and step is None:
            step = shade_steps(count)[place]
        else:
            dash = dash * count + place
        mark = mark * count + place
    color = color if step is None else shade(color, step)
    return Stroke(color, MARKERS[mark % len(MARKERS)], DASHES[dash % len(DASHES)])


def _place(names: Names, path: str, value: Any) -> int:
    return [label(each) for each in names.axes[path]].index(label(value))


def _choose_panels(measured: Measured, facets: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """The groups of at most as many panels as a page holds, and a sentence on those that are left out."""
    names, groups = measured.names, measured.group_names

    def panel(group: str) -> tuple[str, ...]:
        if ARM in facets:
            return (group,)
        return tuple(label(names.groups[group].settings[path]) for path in facets)

    panels = list(dict.fromkeys(map(panel, groups)))
    if len(panels) <= MOST_PANELS:
        return groups, ""
    wanted = [panel(group) for group in _important(measured)]
    kept = list(dict.fromkeys([panels[0], panels[-1], *wanted]))[:MOST_PANELS]
    shown = tuple(group for group in groups if panel(group) in kept)
    return shown, (
        f"Shown are {len(shown)} of {len(groups)} groups: the first and the last, the best and the worst, and those "
        "that claims name. The tables have all."
    )


def _important(measured: Measured) -> list[str]:
    """The extremes of the headline, then the groups that claims name."""
    found: list[str] = []
    headline = measured.headline
    if headline is not None and headline.at.layer is None and (order := ranked(measured, headline.metric)):
        found += [order[0], order[-1]]
    conditions = [planned.group for planned in measured.plan.groups]
    for claim in measured.study.claims:
        try:
            found += [name for row in chosen(claim, conditions) for name in row]
        except StudyError:
            continue
    return [name for name in dict.fromkeys(found) if name in measured.names.groups]
