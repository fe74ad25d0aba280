"""What a study found: numbers, frames, figures, report, whether it was just run or opened from its folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradlab.analysis.answer import answer, headline_of
from gradlab.analysis.claims import judge
from gradlab.analysis.claims.verdict import Verdict
from gradlab.analysis.measured import Measured
from gradlab.analysis.text import where
from gradlab.audits.audit import Audit
from gradlab.errors import StoreError, described
from gradlab.plans.plan import Plan
from gradlab.report.charts import Chart
from gradlab.report.draw import charts, column_pdf, draw_one, draw_overview, image, images
from gradlab.report.evidence import with_figures
from gradlab.report.export import checked, export_latex, export_table, rows_csv
from gradlab.report.fairness import mark_unfair
from gradlab.report.inside.explanation import Diagnosis, diagnose
from gradlab.report.inside.film import Film
from gradlab.report.inside.scenes import SCENES, draw_scene, scene_rows, scenes
from gradlab.report.markdown import markdown_report, relative_links
from gradlab.report.notebook import html_view
from gradlab.report.page import html_page
from gradlab.report.story import Story
from gradlab.runs.store.environment import mixed_note
from gradlab.runs.store.folder import ReportFolder, RunFolder
from gradlab.spec.question import Question

if TYPE_CHECKING:
    import pandas as pd

QUICK_NOTE = "Reduced budget (--quick): a look at the machinery, not a test of the claims."
UNAUDITED_NOTE = (
    "Not audited: that the arms differ in nothing else is for their code to keep; gradlab.audit compares what "
    "they build."
)
UNFINISHED_NOTE = "Unfinished: only the trials that are done so far are in this report."


@dataclass(frozen=True, repr=False)
class Result:
    """What a study found: numbers, frames, figures, report."""

    measured: Measured
    environment: Mapping[str, Any]
    command: str
    folder: Path | None = None
    audit: Audit | None = None
    """Whether the comparison is fair, and what it cannot attribute; None for a run that was never audited."""
    stopped: bool = False
    """Whether Ctrl-C or SIGTERM ended the run."""
    notes: tuple[str, ...] = ()
    """What happened to the folder: a run moved aside, a chunk that was damaged."""
    without_figures: bool = False
    """Whether the report is to have none."""
    film: Film | None = None
    """Two arms looked into, layer by layer, while they learn."""
    layer_names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Group -> the modules that are its layers 1, 2, …, where code of the user's own was watched."""

    @property
    def study(self) -> Question:
        """The study that was run."""
        return self.measured.study

    @property
    def unfinished(self) -> bool:
        """Whether trials of the plan have no result yet."""
        return len(self.measured.trials) < len(self.measured.plan.trials)

    @property
    def answer(self) -> str:
        """The answer to the study's question, from the numbers."""
        return answer(self.measured)

    def __repr__(self) -> str:
        counts = ", ".join(f"{number} {word}" for word, number in self.measured.counts().items())
        return f"<Result of {self.study.name}: {counts}; {self.answer[:200]}>"

    def arrow(self, name: str) -> Any:
        """One of the tables `trials`, `curves`, `layers`, `summary` as an Arrow table: NaN and missing are distinct."""
        import pyarrow as pa

        if name == "trials":
            return self.measured.frame()
        if name == "summary":
            return pa.Table.from_pylist(self._summary_rows())
        return self.measured.named(getattr(self.measured.records, name)())

    def trials(self) -> pd.DataFrame:
        """One row per trial: status and metrics. Missing is NA, which is not NaN."""
        import pandas as pd

        return self.arrow("trials").to_pandas(types_mapper=pd.ArrowDtype)  # type: ignore[no-any-return]

    def curves(self) -> pd.DataFrame:
        """One row per trial, metric and step."""
        return self.arrow("curves").to_pandas()  # type: ignore[no-any-return]

    def layers(self) -> pd.DataFrame:
        """One row per trial, step, layer and measure."""
        return self.arrow("layers").to_pandas()  # type: ignore[no-any-return]

    def weights(self, group: str, seed: int, step: int | None = None) -> dict[str, Any]:
        """The kept parameters of a trial by name, after its last step or after another that was kept."""
        for trial in self.measured.trials:
            if (trial.group, trial.seed) == (group, seed):
                kept = self.measured.records.weights(trial.id)
                if not kept or (step is not None and step not in kept):
                    there = ", ".join(map(str, sorted(kept))) or "none"
                    raise KeyError(f"no parameters of {trial.name} after step {step}; kept: {there} (measure.weights)")
                return dict(kept[max(kept) if step is None else step])
        raise KeyError(f"this result has no trial of group {group!r} with seed {seed}")

    def table(self) -> pd.DataFrame:
        """One row per group and metric: mean, 95 % interval, n and more, over seeds."""
        import pandas as pd

        return pd.DataFrame(self._summary_rows())

    def _summary_rows(self) -> list[dict[str, Any]]:
        return [
            {"group": name, "metric": metric, **summary}
            for name in self.measured.group_names
            for metric, summary in self._group_metrics(name).items()
        ]

    @cached_property
    def _charts(self) -> tuple[dict[str, Chart], tuple[str, ...]]:
        if self.without_figures:
            return {}, ()
        found, missing = charts(self.measured)
        return {name: mark_unfair(chart, self.audit) for name, chart in found.items()}, missing

    @cached_property
    def verdicts(self) -> tuple[Verdict, ...]:
        """What became of every claim of the study, each with the figure that shows it."""
        catalog = self.measured.plan.catalog
        return with_figures(judge(self.measured), tuple(self.charts), catalog)

    @property
    def charts(self) -> dict[str, Chart]:
        """The data of every figure, by name."""
        return self._charts[0]

    def figure(self, name: str, ax: Any = None) -> Any:
        """A matplotlib figure; with `ax`, drawn on those axes."""
        if name not in self.charts:
            raise KeyError(f"this result has no figure {name!r}; it has {', '.join(self.charts)}")
        return draw_one(self.charts[name], ax)

    def report(self) -> str:
        """The report as Markdown."""
        return markdown_report(self.story({}))

    def page(self) -> str:
        """The report as one HTML file that needs nothing else."""
        drawn, broken = self._drawn(("svg",))
        return html_page(self.story(broken), _pictures(drawn))

    def story(self, broken: Mapping[str, str]) -> Story:
        """All that the report tells, without the figures that cannot be drawn."""
        notes = [*self.study.remarks, *([QUICK_NOTE] if self.measured.plan.quick else [])]
        if self.audit is None and len(self.measured.group_names) > 1 and self.measured.plan.own_code:
            notes.append(UNAUDITED_NOTE)
        notes += [UNFINISHED_NOTE] if self.unfinished else []
        mixed = mixed_note(self.environment)
        notes += [mixed] if mixed else []
        charts, missing = self._charts
        film = None if self.without_figures else self.film
        return Story(
            self.measured,
            self.audit,
            self.verdicts,
            {name: chart for name, chart in charts.items() if name not in broken},
            [*missing, *broken.values()],
            self.environment,
            self.command,
            [*notes, *self.notes],
            film,
            () if film is None else self._diagnoses(film),
            self.layer_names,
        )

    def _diagnoses(self, film: Film) -> tuple[Diagnosis, Diagnosis]:
        plan = self.measured.plan
        assert isinstance(plan, Plan)  # a film is made of networks of the lab
        configs = {planned.group.name: planned.config for planned in plan.groups}
        return diagnose(film, (configs[film.arms[0]], configs[film.arms[1]]))

    def save(self, out: str | Path) -> Path:
        """Write study, results, figures and report to a folder; gives the report's path."""
        with RunFolder.start(Path(out), self.measured.plan, self.environment, self.command) as folder:
            folder.adopt(self.measured.records)
            return self.write(folder)

    def rewrite(self, formats: Sequence[str] = ("html", "md")) -> Path:
        """Make figures and report again in the run's own folder; gives the path of the first format."""
        if self.folder is None:
            raise StoreError("this result has no folder; save it to one")
        return self.write(ReportFolder(self.folder), formats=formats)

    def export(self, to: str, table: str = "summary") -> bytes:
        """A table (`summary`, `trials`, `curves`, `layers`) as csv, parquet or json; the summary also as latex."""
        checked(to, table)
        return export_latex(self.measured) if to == "latex" else export_table(self.arrow(table), to)

    def write(self, folder: ReportFolder, *, figures: bool = True, formats: Sequence[str] = ("html", "md")) -> Path:
        """Write figures, data, tables and report to a run's folder; gives the path of the first format."""
        shown = self if figures else replace(self, without_figures=True)
        drawn, broken = shown._drawn(("png", "svg", "pdf")) if figures else ({}, {})
        for name, content in drawn.items():
            folder.write_file(f"figures/{name}", content)
        folder.write_file("tables.tex", export_latex(self.measured))
        story = shown.story(broken)
        written = {}
        if "md" in formats:
            text = markdown_report(story)
            missing = [link for link in relative_links(text) if not (folder.path / link).is_file()]
            if missing:
                raise StoreError(
                    f"{folder.path / 'report.md'}: links to files that are not there: {', '.join(missing)}"
                )
            written["md"] = folder.write_text("report.md", text)
        if "html" in formats:
            written["html"] = folder.write_text("report.html", html_page(story, _pictures(drawn)))
        # figures of an earlier report go last: at any moment, the links of the report that is there lead somewhere
        folder.clear_figures(["overview", *SCENES, *self.measured.plan.catalog.names("figure")], keep=drawn)
        return written[formats[0]]

    def _drawn(self, kinds: Sequence[str]) -> tuple[dict[str, bytes], dict[str, str]]:
        """Files of all figures, and for each that cannot be drawn the reason: the report is still wanted."""
        files: dict[str, bytes] = {}
        broken: dict[str, str] = {}
        for name, chart in self.charts.items():
            try:
                canvas = draw_one(chart)
                made = images(canvas, [kind for kind in kinds if kind != "pdf"])
                files |= {f"{name}.{kind}": content for kind, content in made.items()}
                if "pdf" in kinds:
                    files |= {f"{name}.pdf": column_pdf(chart), f"{name}.csv": rows_csv(*chart.table())}
            except Exception as error:
                broken[name] = f"{name}: {described(error)}"
        whole = {name: chart for name, chart in self.charts.items() if name not in broken}
        if whole and "png" in kinds:
            files["overview.png"] = image(draw_overview(whole, self.study.question), "png")
        if self.film is not None and "png" in kinds:
            for scene in scenes(self.film):
                made = images(draw_scene(scene, self.film), kinds)
                files |= {f"{scene.name}.{kind}": content for kind, content in made.items()}
                files[f"{scene.name}.csv"] = rows_csv(*scene_rows(scene, self.film))
        return files, broken

    def to_json(self) -> dict[str, Any]:
        """One object: study, run, audit, trials, groups with their metrics, claims."""
        measured, study = self.measured, self.study
        return {
            "study": study.name,
            "question": study.question,
            "answer": self.answer,
            "run": None if self.folder is None else str(self.folder),
            "quick": measured.plan.quick,
            "unfinished": self.unfinished,
            "audit": None if self.audit is None else self.audit.to_json(),
            "notes": list(self.notes),
            "trials": measured.counts(),
            "hash": measured.hash,
            "groups": [
                {
                    "name": planned.group.name,
                    "settings": dict(planned.group.settings),
                    "metrics": self._group_metrics(planned.group.name),
                }
                for planned in measured.plan.groups
            ],
            "claims": [verdict.to_json() for verdict in self.verdicts],
        }

    def _group_metrics(self, group: str) -> dict[str, Any]:
        """Trial metrics, and the layer measures that headline, claims and published numbers name."""
        measured, study = self.measured, self.study
        found = {metric: measured.summary(metric, group).to_json() for metric in measured.metrics}
        named = [headline_of(measured), *study.claims, *study.published]
        for entry in named:
            if entry is None or entry.metric is None or entry.at.layer is None or "/" in entry.metric:
                continue
            for at in measured.places(entry.at, group):
                found[where(entry.metric, at)] = measured.summary(entry.metric, group, at).to_json()
        return found

    def _repr_html_(self) -> str:
        return html_view(self.measured, self.charts, self.audit, self.verdicts)


def _pictures(drawn: Mapping[str, bytes]) -> dict[str, bytes]:
    """The SVG figures by name."""
    return {name.removesuffix(".svg"): content for name, content in drawn.items() if name.endswith(".svg")}
