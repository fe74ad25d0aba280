"""The pictures of a report: charts of the study's figures and views of the micro-world, and their files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from gradlab.analysis.measured import Measured
from gradlab.audits.audit import Audit
from gradlab.errors import described
from gradlab.report.charts import Chart
from gradlab.report.draw import join_images, make_charts, overview_names, render_images
from gradlab.report.export import render_csv
from gradlab.report.fairness import mark_unfair
from gradlab.report.inside.diagnosis import Diagnosis, diagnose
from gradlab.report.inside.drawing import view_chart
from gradlab.report.inside.recording import Recording
from gradlab.report.inside.views import View, expect, make_views
from gradlab.spec.naming import say_inside

KINDS = ("png", "svg", "pdf", "csv")
"""Files of a picture."""


@dataclass(frozen=True)
class MicroWorld:
    """What happens inside two arms: the recording, its views, and a diagnosis of each arm."""

    recording: Recording
    views: tuple[View, ...]
    diagnoses: tuple[Diagnosis, ...]


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
