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
from gradlab.errors import StudyError
from gradlab.execute.base import TrialResult
from gradlab.execute.pool import run_pool
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
        _refuse_options(study, overrides, seeds, quick)
        return study
    if isinstance(study, Study):
        tree, source = study.model_dump(mode="json", exclude_unset=True), study.name
    elif isinstance(study, Mapping):
        tree, source = files.checked_tree(study, "study"), str(study.get("name", "study"))
    else:
        path = studies.locate(str(study))
        tree, source = files.read(path), str(study)
    changes = _listed(overrides)
    full = files.with_overrides(tree, changes, seeds)
    if not quick:
        resolved = files.resolve(full, source)
        if resolved.study.quick:  # a mistake in the quick form is found now, not when it is first asked for
            files.check_quick(full, source)
        return resolved
    return files.resolve(files.with_overrides(files.quick_form(tree), changes, seeds), source, quick=True)


def _listed(overrides: Any) -> list[str | tuple[str, Any]]:
    if isinstance(overrides, str):
        return [overrides]
    if isinstance(overrides, Mapping):
        return [(str(path), value) for path, value in overrides.items()]
    if isinstance(overrides, Sequence):
        return list(overrides)
    raise StudyError(f"overrides: a mapping from paths to values or a list of path=value, not {overrides!r}")


def _refuse_options(study: object, overrides: Overrides, seeds: object, quick: bool) -> None:
    if overrides or seeds is not None or quick:
        raise StudyError(f"overrides, seeds and quick do not apply to a {type(study).__name__}; give them when loading")


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
    workers: int | None = None,
    tick: Callable[[Trial, int], None] | None = None,
    on_result: Callable[[TrialResult], None] | None = None,
) -> Result:
    """Run a study. With `out`, its folder gets the resolved study, tables, figures and report.

    Trials run side by side on `workers` threads (all cores); the results do not depend on how many. Ctrl-C keeps the
    finished trials: the result says so in `interrupted`.
    """
    if isinstance(study, Plan):
        _refuse_options(study, overrides, seeds, quick)
        planned = study
    else:
        planned = dry_run(study, overrides=overrides, seeds=seeds, quick=quick)
    surroundings = environment()
    folder = None
    if out is not None:
        folder = RunFolder.start(Path(out), planned.resolved, surroundings)
    results: list[TrialResult] = []
    interrupted = False
    try:
        for result in run_pool(planned.trials, tick, workers):
            results.append(result)
            if on_result is not None:
                on_result(result)
    except KeyboardInterrupt:
        interrupted = True
    finished = Result(
        Measured(planned, tuple(results)),
        surroundings,
        command or _python_call(study, overrides, seeds, quick),
        None if folder is None else folder.path,
        interrupted,
    )
    if folder is not None:
        finished.write(folder)
    return finished


def _python_call(study: object, overrides: Overrides, seeds: object, quick: bool) -> str:
    """The call that made a result; a study that was not a name or a file is in the run's folder."""
    words = [repr(str(study)) if isinstance(study, str | Path) else '"study.yaml"']
    words += [f"overrides={overrides!r}"] if overrides else []
    words += [f"seeds={seeds!r}"] if seeds is not None else []
    return f"gradlab.run({', '.join([*words, *(['quick=True'] if quick else [])])})"


@dataclass(frozen=True, repr=False)
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

    def __repr__(self) -> str:
        counts = ", ".join(f"{number} {word}" for word, number in self.measured.counts().items())
        return f"<Result of {self.study.name}: {counts}; {self.answer[:200]}>"

    def trials(self) -> pd.DataFrame:
        """One row per trial: status and metrics. Missing is NA, which is not NaN."""
        import pandas as pd

        table = tables.trials_table(self.measured.results)
        return table.to_pandas(types_mapper=pd.ArrowDtype)  # type: ignore[no-any-return]

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
    def _charts(self) -> tuple[dict[str, Chart], tuple[str, ...]]:
        return charts(self.measured)

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
        notes = [QUICK_NOTE] if self.measured.plan.resolved.quick else []
        notes += [INTERRUPTED_NOTE] if self.interrupted else []
        charts, missing = self._charts
        return markdown_report(self.measured, charts, missing, self.environment, self.command, " ".join(notes))

    def save(self, out: str | Path) -> Path:
        """Write study, tables, figures and report to a folder; gives the report's path."""
        return self.write(RunFolder.start(Path(out), self.measured.plan.resolved, dict(self.environment)))

    def write(self, folder: RunFolder) -> Path:
        """Write tables, figures and report to a run's folder; gives the report's path."""
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
            for at in entry.at.places():
                found[where(entry.metric, at)] = measured.summary(entry.metric, group, at).to_json()
        return found

    def _claim_numbers(self, claim: Any) -> dict[str, Any]:
        """What was measured in each arm that the claim names."""
        groups = (claim.arms,) if isinstance(claim.arms, str) else claim.arms or ()
        return {
            group if at.layer is None else f"{group}, layer {at.layer}": self.measured.summary(
                claim.metric, group, at
            ).to_json()
            for group in groups
            for at in claim.at.places()
            if claim.metric and group in self.measured.group_names
        }

    def _repr_html_(self) -> str:
        return html_view(self.measured, self.charts)
