"""The pictures of a report: charts of the study's figures and views of the micro-world, and their files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from gradlab.analysis.measured import Measured
from gradlab.audits.audit import Audit
from gradlab.errors import described
from gradlab.plans.plan import Plan
from gradlab.report.charts import Chart
from gradlab.report.draw import draw_one, draw_overview, make_charts, render_column_pdf, render_image, render_images
from gradlab.report.export import render_csv
from gradlab.report.fairness import mark_unfair
from gradlab.report.inside.diagnosis import Diagnosis, diagnose
from gradlab.report.inside.drawing import draw_view, view_rows
from gradlab.report.inside.recording import Recording
from gradlab.report.inside.views import View, make_views


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


def make_pictures(measured: Measured, audit: Audit | None, recording: Recording | None) -> Pictures:
    """Compute everything the report shows; nothing is drawn yet."""
    charts, missing = make_charts(measured)
    marked = {name: mark_unfair(chart, audit) for name, chart in charts.items()}
    return Pictures(marked, missing, None if recording is None else _make_microworld(measured, recording))


def _make_microworld(measured: Measured, recording: Recording) -> MicroWorld:
    plan = measured.plan
    assert isinstance(plan, Plan)  # only networks that we build are recorded
    configs = {planned.group.name: planned.config for planned in plan.groups}
    first, second = (configs[arm] for arm in recording.arms)
    return MicroWorld(recording, tuple(make_views(recording)), diagnose(recording, (first, second)))


def draw_page_files(pictures: Pictures) -> Drawn:
    """The charts as SVG: what the page needs."""
    return _draw_charts(pictures, ("svg",))


def draw_files(pictures: Pictures, title: str) -> Drawn:
    """Every file of a run's `figures` folder: png, svg, pdf and data of each picture, and the overview."""
    kinds = ("png", "svg", "pdf")
    drawn = _draw_charts(pictures, kinds)
    files = dict(drawn.files)
    if whole := pictures.without(drawn.broken).charts:
        files["overview.png"] = render_image(draw_overview(whole, title), "png")
    if pictures.microworld is not None:
        recording = pictures.microworld.recording
        for view in pictures.microworld.views:
            images = render_images(draw_view(view, recording), kinds)
            files |= {f"{view.name}.{kind}": content for kind, content in images.items()}
            files[f"{view.name}.csv"] = render_csv(*view_rows(view, recording))
    return Drawn(files, drawn.broken)


def _draw_charts(pictures: Pictures, kinds: Sequence[str]) -> Drawn:
    """Files of all charts; one that cannot be drawn does not prevent the report."""
    files: dict[str, bytes] = {}
    broken: dict[str, str] = {}
    for name, chart in pictures.charts.items():
        try:
            images = render_images(draw_one(chart), [kind for kind in kinds if kind != "pdf"])
            files |= {f"{name}.{kind}": content for kind, content in images.items()}
            if "pdf" in kinds:
                files |= {f"{name}.pdf": render_column_pdf(chart), f"{name}.csv": render_csv(*chart.table())}
        except Exception as error:
            broken[name] = described(error)
    return Drawn(files, broken)
