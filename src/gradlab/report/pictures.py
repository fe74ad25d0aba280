"""The pictures of a report: charts of the study's figures and views of the micro-world, and their files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gradlab.analysis.measured import Measured
from gradlab.audits.audit import Audit
from gradlab.errors import InvalidInput, described, nearest, offer, shortened
from gradlab.facts import Fact
from gradlab.report.charts import Chart
from gradlab.report.draw import join_images, make_chart, make_charts, overview_names, render_images
from gradlab.report.export import render_csv
from gradlab.report.inside.recording import Recording, diagnose
from gradlab.report.inside.views import VIEWS, View, expect, make_views, view_chart
from gradlab.spec.naming import Names, check_labels, say_inside
from gradlab.spec.selection import matches

KINDS = ("png", "svg", "pdf", "csv")
"""Files of a picture."""


@dataclass(frozen=True)
class MicroWorld:
    """What happens inside two arms: the recording, its views, and a diagnosis of each arm."""

    recording: Recording
    views: tuple[View, ...]
    diagnoses: tuple[Fact, ...]


@dataclass(frozen=True)
class Pictures:
    """What a report shows besides words and tables."""

    charts: Mapping[str, Chart] = field(default_factory=dict)
    """By the name of the figure."""
    missing: tuple[str, ...] = ()
    """A line for each figure that could not be made, with the reason."""
    microworld: MicroWorld | None = None
    layers: tuple[str, ...] = ()
    """The modules that are layers 1, 2, … of every group, if they have names."""

    def without(self, broken: Mapping[str, str]) -> Pictures:
        """The pictures, without those that could not be drawn; `broken` gives the reasons by name."""
        if not broken:
            return self
        whole = {name: chart for name, chart in self.charts.items() if name not in broken}
        lines = (f"{name}: {reason}" for name, reason in broken.items())
        return replace(self, charts=whole, missing=(*self.missing, *lines))


@dataclass(frozen=True)
class Drawn:
    """Files of the pictures by name, and the reason for each chart that could not be drawn."""

    files: Mapping[str, bytes]
    broken: Mapping[str, str]

    @property
    def svg(self) -> dict[str, bytes]:
        """The SVG files by the name of the figure."""
        return {name.removesuffix(".svg"): content for name, content in self.files.items() if name.endswith(".svg")}


def make_pictures(
    measured: Measured, audit: Audit | None, recording: Recording | None, layers: Sequence[str] = ()
) -> Pictures:
    """Compute everything the report shows; nothing is drawn yet."""
    charts, missing = make_charts(measured)
    marked = {name: mark_unfair(chart, audit).with_layers(layers) for name, chart in charts.items()}
    world = None if recording is None else _make_microworld(measured, recording)
    return Pictures(marked, missing, world, tuple(layers))


def _make_microworld(measured: Measured, recording: Recording) -> MicroWorld:
    plan = measured.plan
    configs = {planned.group.name: planned.config for planned in plan.groups}
    first, second = (configs[arm] for arm in recording.arms)
    first_name, second_name = (measured.names.group(arm) for arm in recording.arms)
    named = replace(recording, arms=(first_name, second_name))
    expected = expect(measured, {arm: configs[arm] for arm in recording.arms})
    inside = tuple(say_inside(measured.names, arm) for arm in recording.arms)
    return MicroWorld(named, tuple(make_views(named, expected, inside)), diagnose(named, (first, second)))


def all_charts(pictures: Pictures) -> dict[str, Chart]:
    """The charts of the figures, then those of the micro-world's views, by name."""
    found = dict(pictures.charts)
    if pictures.microworld is not None:
        world = pictures.microworld
        found |= {view.name: view_chart(view, world.recording) for view in world.views}
    return found


def draw_page_files(pictures: Pictures) -> Drawn:
    """The charts as SVG: what the page needs."""
    return _draw_charts(pictures.charts, ("svg",))


def draw_files(pictures: Pictures, title: str) -> Drawn:
    """Every file of a run's `figures` folder: png, svg, pdf and data of each picture, and the overview."""
    drawn = _draw_charts(all_charts(pictures), KINDS)
    files = dict(drawn.files)
    if whole := pictures.without(drawn.broken).charts:
        files["overview.png"] = join_images([files[f"{name}.png"] for name in overview_names(whole)], title)
    return Drawn(files, drawn.broken)


def _draw_charts(charts: Mapping[str, Chart], kinds: Sequence[str]) -> Drawn:
    """Files of all charts; one that cannot be drawn does not prevent the report."""
    files: dict[str, bytes] = {}
    broken: dict[str, str] = {}
    for name, chart in charts.items():
        try:
            images = render_images(chart, [kind for kind in kinds if kind != "csv"])
            files |= {f"{name}.{kind}": content for kind, content in images.items()}
            if "csv" in kinds:
                files[f"{name}.csv"] = render_csv(*chart.table())
        except Exception as error:
            broken[name] = described(error)
    return Drawn(files, broken)


def mark_unfair(chart: Chart, audit: Audit | None) -> Chart:
    """The chart, with a warning if the comparison is not controlled."""
    if audit is None or audit.mark is None:
        return chart
    return replace(chart, warning=f"{audit.mark.upper()} (see the audit)")


# A figure as a user asks for it: of some groups, in panels and hues by their settings, under other names.

Groups = str | Sequence[str] | Mapping[str, Any]
"""Names of groups, settings as text (`depth=5|20, skip=none`), or settings with their values."""


@dataclass(frozen=True)
class FigureRequest:
    """What to show, and how."""

    groups: Groups | None = None
    facet: str | None = None
    color: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    title: str | None = None

    @property
    def plain(self) -> bool:
        """Whether nothing but perhaps a title is asked for."""
        return self.groups is None and self.facet is None and self.color is None and not self.labels


def requested_chart(
    measured: Measured, audit: Audit | None, pictures: Pictures, name: str, request: FigureRequest
) -> Chart:
    """The chart of a figure or of a view of the micro-world."""
    chart = pictures.charts.get(name) if request.plain else None
    chart = chart or _view(pictures, name, request) or _figure(measured, audit, pictures, name, request)
    return chart if request.title is None else replace(chart, title=request.title)


def list_figures(measured: Measured, pictures: Pictures) -> dict[str, str]:
    """Every figure that has something to show, with the first line of its description; the report's figures first."""
    catalog = measured.plan.catalog
    names = [*pictures.charts, *(name for name in catalog.ranked("figure") if name not in pictures.charts)]
    found = {}
    for name in names:
        if name in pictures.charts or _applies(measured, name):
            found[name] = catalog.get("figure", name).summary()
    if pictures.microworld is not None:
        found |= {view.name: VIEWS[view.name] for view in pictures.microworld.views}
    return found


def _applies(measured: Measured, name: str) -> bool:
    try:
        return make_chart(measured, name) is not None
    except Exception:  # a user's figure can fail in any way; it is then not offered
        return False


def _view(pictures: Pictures, name: str, request: FigureRequest) -> Chart | None:
    world = pictures.microworld
    view = next((view for view in world.views if view.name == name), None) if world is not None else None
    if view is None or world is None:
        return None
    if not request.plain:
        raise InvalidInput(
            f"{name} shows the two networks of the micro-world: groups, facet, color and labels do not apply; "
            "gradlab report RUN --pair ARM ARM chooses others"
        )
    return view_chart(view, world.recording)


def _figure(measured: Measured, audit: Audit | None, pictures: Pictures, name: str, request: FigureRequest) -> Chart:
    names = measured.plan.catalog.names("figure")
    if name not in names:
        there = list(list_figures(measured, pictures))
        raise InvalidInput(f"there is no figure {name!r}{offer(name, there)}")
    check_labels(request.labels, [planned.group for planned in measured.plan.groups], measured.plan.catalog)
    groups = measured.group_names if request.groups is None else choose(measured.names, request.groups)
    shown = measured if request.plain else measured.only(groups, request.labels)
    chart = make_chart(shown, name, request.facet, request.color)
    if chart is None:
        of = "these groups" if request.groups is not None else "this run"
        raise InvalidInput(f"{name}: {of} have nothing to show in it" if request.groups else f"{name}: nothing in {of}")
    return mark_unfair(_say_shared(chart, measured.names, shown.names), audit).with_layers(pictures.layers)


def _say_shared(chart: Chart, before: Names, after: Names) -> Chart:
    """The chart, with a note on settings that all chosen groups share, and that their names therefore leave out."""
    first = next(iter(after.groups.values()))
    shared = [path for path in before.axes if path not in after.axes and path in first.settings and not before.arms]
    said = ", ".join(before.level(path, first.settings[path]) for path in shared)
    return replace(chart, note="; ".join(text for text in (f"all: {said}" if said else "", chart.note) if text))


def choose(names: Names, wanted: Groups) -> tuple[str, ...]:
    """The groups that a request names, in the study's order; every part of it has to name at least one."""
    if isinstance(wanted, Mapping):
        tests = {key: _values(values) for key, values in wanted.items()}
        found = _matching(names, tests, ", ".join(tests))
        return tuple(name for name in names.groups if name in found)
    texts = [wanted] if isinstance(wanted, str) else list(wanted)
    kept = {name for text in texts for name in _select(names, text)}
    if not kept:
        raise InvalidInput("groups: give at least one group")
    return tuple(name for name in names.groups if name in kept)


def _select(names: Names, text: str) -> list[str]:
    exact = [name for name in names.groups if text in (name, names.group(name))]
    if exact:
        return exact
    pieces = [piece.strip() for piece in text.split(",") if piece.strip()]
    if not pieces or not all("=" in piece for piece in pieces):
        known = list(names.groups)
        raise InvalidInput(
            f"groups: {shortened(text)} is neither a group nor setting=value{nearest(text, known)}; "
            f"write depth=5|20, or one of {', '.join(known[:4])}{' …' if len(known) > 4 else ''}"
        )
    pairs = (piece.partition("=") for piece in pieces)
    return _matching(names, {key.strip(): tuple(value.split("|")) for key, _, value in pairs}, text)


def _matching(names: Names, tests: Mapping[str, Sequence[Any]], text: str) -> list[str]:
    paths = {key: names.path(key) for key in tests}
    for key, values in tests.items():
        there = names.axes[paths[key]]
        for value in values:
            if not any(matches(own, value) for own in there):
                levels = ", ".join(names.tick(paths[key], own) for own in there[:12])
                raise InvalidInput(f"groups: no group has {key}={value}; there are {levels}")
    found = [
        name
        for name, group in names.groups.items()
        if all(any(matches(group.settings[paths[key]], v) for v in values) for key, values in tests.items())
    ]
    if not found:
        raise InvalidInput(f"groups: no group has all of {text}")
    return found


def _values(values: Any) -> tuple[Any, ...]:
    return tuple(values) if isinstance(values, list | tuple | set | range) else (values,)
