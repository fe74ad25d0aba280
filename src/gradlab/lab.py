"""The lab from Python: load a study, plan it, run it, look at the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradlab import studies
from gradlab.analysis.answer import answer, headline_of
from gradlab.analysis.measured import Measured
from gradlab.analysis.numbers import where
from gradlab.execute.base import TrialResult
from gradlab.execute.inline import run_inline
from gradlab.plan.plan import Plan, make_plan
from gradlab.report.charts import Chart
from gradlab.report.draw import charts, draw_one, draw_overview, image
from gradlab.report.html import html_view
from gradlab.report.markdown import markdown_report
from gradlab.spec import files
from gradlab.spec.files import Resolved
from gradlab.spec.study import Study
from gradlab.store import tables
from gradlab.store.environment import environment
from gradlab.store.folder import RunFolder
from gradlab.trial.trial import Trial

if TYPE_CHECKING:
    import pandas as pd

Overrides = Mapping[str, Any] | Sequence[str]
StudyLike = str | Path | Mapping[str, Any] | Study | Resolved
QUICK_NOTE = "Reduced budget (--quick): a look at the machinery, not a test of the claims."
INTERRUPTED_NOTE = "Interrupted: only the trials that were finished are in this report."


def list_studies() -> list[str]:
    """Names of the built-in studies."""
    return studies.names()


def load(
    study: StudyLike, *, overrides: Overrides = (), seeds: int | Sequence[int] | None = None, quick: bool = False
) -> Resolved:
    """A study with its parts loaded and every group checked.

    `study` is a built-in name, a YAML file, a mapping or a `Study`; `overrides` are `{"train.lr": 3e-4}` or
    `["train.lr=3e-4"]`.
    """
    if isinstance(study, Resolved):
        return study
    if isinstance(study, Study):
        tree, source = study.model_dump(mode="json", exclude_unset=True), study.name
    elif isinstance(study, Mapping):
        tree, source = files.checked_tree(study, "study"), str(study.get("name", "study"))
    else:
        path = studies.locate(str(study))
        tree, source = files.read(path), str(study)
    pairs = [(p, v) for p, v in overrides.items()] if isinstance(overrides, Mapping) else overrides
    if quick:
        tree = files.quick_form(tree)
    tree = files.apply_overrides(tree, pairs)
    if seeds is not None:
        tree = {**tree, "seeds": seeds if isinstance(seeds, int) else list(seeds)}
    return files.resolve(tree, source, quick=quick)


def dry_run(study: StudyLike, **options: Any) -> Plan:
    """Every trial of a study and its cost; nothing is run. Options as for `load`."""
    return make_plan(load(study, **options))


def run(
    study: StudyLike | Plan,
    *,
    overrides: Overrides = (),
    seeds: int | Sequence[int] | None = None,
    quick: bool = False,
    out: str | Path | None = None,
    command: str | None = None,
    tick: Callable[[Trial, int], None] | None = None,
    on_result: Callable[[TrialResult], None] | None = None,
) -> Result:
    """Run a study. With `out`, its folder gets the resolved study, tables, figures and report.

    Ctrl-C keeps the finished trials: the result says so in `interrupted`.
    """
    planned = study if isinstance(study, Plan) else dry_run(study, overrides=overrides, seeds=seeds, quick=quick)
    folder = RunFolder.open(Path(out)) if out is not None else None
    surroundings = environment()
    if folder is not None:
        folder.write_study(planned.resolved.study, surroundings)
    results: list[TrialResult] = []
    interrupted = False
    try:
        for result in run_inline(planned.trials, tick):
            results.append(result)
            if on_result is not None:
                on_result(result)
    except KeyboardInterrupt:
        interrupted = True
    finished = Result(
        Measured(planned, tuple(results)),
        surroundings,
        command or f'gradlab.run("{planned.resolved.study.name}")',
        None if folder is None else folder.path,
        interrupted,
    )
    if folder is not None:
        finished.save(folder.path)
    return finished


@dataclass(frozen=True)
class Result:
    """What a study found: numbers, frames, figures, report."""

    measured: Measured
    environment: Mapping[str, Any]
    command: str
    folder: Path | None = None
    interrupted: bool = False

    @property
    def study(self) -> Study:
        """The study that was run."""
        return self.measured.study

    @property
    def answer(self) -> str:
        """The answer to the study's question, from the numbers."""
        return answer(self.measured)

    def trials(self) -> pd.DataFrame:
        """One row per trial: status and metrics."""
        return tables.trials_table(self.measured.results).to_pandas()  # type: ignore[no-any-return]

    def curves(self) -> pd.DataFrame:
        """One row per trial, metric and step."""
        return tables.curves_table(self.measured.results).to_pandas()  # type: ignore[no-any-return]

    def layers(self) -> pd.DataFrame:
        """One row per trial, step, layer and measure."""
        return tables.layers_table(self.measured.results).to_pandas()  # type: ignore[no-any-return]

    def table(self) -> pd.DataFrame:
        """One row per group and metric: mean, 95 % interval, n and more, over seeds."""
        import pandas as pd

        rows = [
            {"group": group["name"], "metric": metric, **summary}
            for group in self.to_json()["groups"]
            for metric, summary in group["metrics"].items()
        ]
        return pd.DataFrame(rows)

    @cached_property
    def charts(self) -> dict[str, Chart]:
        """The data of every figure, by name."""
        return charts(self.measured)

    def figure(self, name: str, ax: Any = None) -> Any:
        """A matplotlib figure; with `ax`, drawn on those axes."""
        if name not in self.charts:
            raise KeyError(f"this result has no figure {name!r}; it has {', '.join(self.charts)}")
        return draw_one(self.charts[name], ax)

    def report(self) -> str:
        """The report as Markdown."""
        notes = [QUICK_NOTE] if self.measured.plan.resolved.quick else []
        notes += [INTERRUPTED_NOTE] if self.interrupted else []
        return markdown_report(self.measured, self.charts, self.environment, self.command, " ".join(notes))

    def save(self, out: str | Path) -> Path:
        """Write study, tables, figures and report to a folder; gives the report's path."""
        folder = RunFolder.open(Path(out))
        folder.write_study(self.study, dict(self.environment))
        folder.write_results(self.measured.results)
        if self.charts:
            folder.write_file("figures/overview.png", image(draw_overview(self.charts, self.study.question), "png"))
        for name, chart in self.charts.items():
            canvas = draw_one(chart)
            for kind in ("png", "svg"):
                folder.write_file(f"figures/{name}.{kind}", image(canvas, kind))
        return folder.write_text("report.md", self.report())

    def to_json(self) -> dict[str, Any]:
        """One object: study, run, audit, trials, groups with their metrics, claims."""
        measured, study = self.measured, self.study
        return {
            "study": study.name,
            "question": study.question,
            "answer": self.answer,
            "run": None if self.folder is None else str(self.folder),
            "quick": measured.plan.resolved.quick,
            "interrupted": self.interrupted,
            "audit": None,
            "trials": measured.counts(),
            "groups": [
                {
                    "name": planned.group.name,
                    "settings": dict(planned.group.settings),
                    "metrics": self._group_metrics(planned.group.name),
                }
                for planned in measured.plan.groups
            ],
            "claims": [
                {"text": claim.text, "verdict": None, "numbers": self._claim_numbers(claim)} for claim in study.claims
            ],
        }

    def _group_metrics(self, group: str) -> dict[str, Any]:
        """Trial metrics, and the layer measures that headline, claims and published numbers name."""
        measured, study = self.measured, self.study
        found = {metric: measured.summary(metric, group).to_json() for metric in measured.metrics}
        named = [headline_of(measured), *study.claims, *study.published]
        for entry in named:
            if entry is None or entry.metric is None or entry.at.layer is None:
                continue
            layers = entry.at.layer if isinstance(entry.at.layer, tuple) else (entry.at.layer,)
            for layer in layers:
                at = entry.at.model_copy(update={"layer": layer})
                found[where(entry.metric, at)] = measured.summary(entry.metric, group, at).to_json()
        return found

    def _claim_numbers(self, claim: Any) -> dict[str, Any]:
        """What was measured in each arm that the claim names."""
        groups = (claim.arms,) if isinstance(claim.arms, str) else claim.arms or ()
        return {
            group: self.measured.summary(claim.metric, group, claim.at).to_json()
            for group in groups
            if claim.metric and group in self.measured.group_names
        }

    def _repr_html_(self) -> str:
        return html_view(self.measured, self.charts)
