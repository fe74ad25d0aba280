"""What a study found, whether it was just run or opened from its folder: numbers, tables, figures and report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from html import escape
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

from gradlab.analysis.claims.verdict import Verdict
from gradlab.analysis.measured import Measured
from gradlab.audits.audit import Audit
from gradlab.errors import InvalidInput, StoreError, described, shortened
from gradlab.parts import BUILT_IN, Catalog
from gradlab.plans.plan import Plan
from gradlab.plans.saving import load_parts, part_files, restored
from gradlab.report.charts import Chart
from gradlab.report.draw import draw_one, draw_overview, render_image
from gradlab.report.export import check_export, claim_rows, render_latex, render_table_as, summary_rows, write_streamed
from gradlab.report.inside.recording import Recording
from gradlab.report.markdown import render_markdown
from gradlab.report.page import render_page
from gradlab.report.pictures import FigureRequest, Groups, draw_page_files, list_figures, requested_chart
from gradlab.report.story import Story
from gradlab.report.tables import Table, flat_rows
from gradlab.report.writing import save_run, write_report
from gradlab.runs.store.folder import MICROWORLD, PLAN, RunFolder, names_by_group
from gradlab.runs.store.history import History, read_history
from gradlab.runs.store.project import Standing, standing_of
from gradlab.runs.store.records import MOST_ROWS
from gradlab.spec import files
from gradlab.spec.study import Study
from gradlab.tell.why import Explanation

if TYPE_CHECKING:
    import pandas as pd


def render_notebook(story: Story) -> str:
    """The question, its answer, whether it is fair, the verdicts, the overview figure and the tables."""
    parts = [f"<h3>{escape(story.question)}</h3>", f"<p><b>{escape(story.answer)}</b></p>"]
    for line in (story.because, story.fairness, story.caveats, story.tally):
        parts += [f"<p>{escape(line)}</p>"] if line else []
    parts += [verdict._repr_html_() for verdict in story.verdicts]
    if story.pictures.charts:
        try:
            svg = render_image(draw_overview(story.pictures.charts, ""), "svg").decode()
            parts.append(svg[svg.index("<svg") :])
        except Exception as error:  # as in the report, a figure that cannot be drawn does not prevent the rest
            parts.append(f"<p>The figures cannot be drawn: {escape(described(error))}</p>")
    return "\n".join([*parts, *(_render_table(table) for table in story.tables)])


def _render_table(table: Table) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table.header)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
    return f"<h4>{escape(table.title)}</h4><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


# What a study found: numbers, tables, figures and report, whether it was just run or opened from its folder.


@dataclass(frozen=True, repr=False)
class Result:
    """What a study found: numbers, tables, figures and report."""

    measured: Measured
    environment: Mapping[str, Any]
    command: str
    folder: Path | None = None
    audit: Audit | None = None
    """Whether the comparison is fair, and what it cannot attribute; None for a run that was never audited."""
    stopped: bool = False
    """Whether Ctrl-C or SIGTERM ended the run."""
    notes: tuple[str, ...] = ()
    """What happened to the run's folder: a run moved aside, a damaged chunk."""
    recording: Recording | None = None
    """What happened inside two arms, layer by layer, while they learned."""
    layer_names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Group -> the modules that are its layers 1, 2, …, if user code was watched."""
    history: History | None = None
    """What was frozen, changed and looked at, by the ledger of the run's folder; None of a run in memory."""
    project: Standing | None = None
    """Where its claims stand among all of its project; None of a run that belongs to none."""

    @cached_property
    def story(self) -> Story:
        """Everything that a report tells, computed once."""
        return Story(
            self.measured,
            self.audit,
            self.environment,
            self.command,
            self.notes,
            self.recording,
            self.layer_names,
            self.history,
            self.project,
        )

    @property
    def study(self) -> Study:
        """The study that was run."""
        return self.measured.study

    @property
    def remarks(self) -> tuple[str, ...]:
        """What happened to claims, seeds and results that a reader has to know; nothing if all went as planned."""
        return self.story.events

    @property
    def unfinished(self) -> bool:
        """Whether trials of the plan have no result yet."""
        return self.story.unfinished

    @property
    def answer(self) -> str:
        """The answer to the study's question, from the numbers."""
        return self.story.answer

    @property
    def why(self) -> Explanation | None:
        """Why the groups that the answer hangs on end apart: the causal chain, measured; None of a single group.

        `why.because` is the sentence, `why.chain` the links with their numbers, `why.why` the estimates behind them.
        """
        return self.story.why

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """What became of every claim of the study, each with the figure that shows it."""
        return self.story.verdicts

    @property
    def charts(self) -> Mapping[str, Chart]:
        """The data of every figure, by name."""
        return self.story.pictures.charts

    def __repr__(self) -> str:
        counts = ", ".join(f"{number} {word}" for word, number in self.story.counts.items())
        return f"<Result of {self.study.name}: {counts}; {self.answer[:200]}>"

    # ------------------------------------------------------------------ numbers

    def arrow(self, name: str) -> Any:
        """One of the tables `trials`, `curves`, `layers`, `summary`, `claims`, `tuning` as an Arrow table.

        NaN and missing are distinct.
        """
        import pyarrow as pa

        if name == "trials":
            return self.measured.frame()
        if name == "summary":
            return pa.Table.from_pylist(summary_rows(self.story))
        if name == "claims":
            if not self.verdicts:
                raise InvalidInput("--table claims: this study makes no claims")
            return pa.Table.from_pylist(claim_rows(self.story))
        if name == "tuning":
            if self.story.tuning is None:
                raise InvalidInput("--table tuning: this study tunes nothing")
            return pa.Table.from_pylist(flat_rows(self.story.tuning))
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

    def table(self) -> pd.DataFrame:
        """One row per group and metric: center with its 95 % interval (or the range of few seeds: see `span`)."""
        import pandas as pd

        return pd.DataFrame(summary_rows(self.story))

    @property
    def tuning(self) -> pd.DataFrame | None:
        """One row per arm and value tried: metric by tuning seed, median, chosen, edge; None if nothing is tuned."""
        import pandas as pd

        return None if self.story.tuning is None else pd.DataFrame(self.story.tuning.rows())

    def weights(self, group: str, seed: int, step: int | Literal["best"] | None = None) -> dict[str, Any]:
        """The kept parameters of a trial by name, after its last step or after another that was kept.

        `best` is the best epoch, in a study that chooses one (`measure.best`).
        """
        for trial in self.measured.trials:
            if (trial.group, trial.seed) == (group, seed):
                kept = self.measured.records.weights(trial.id)
                if step == "best":
                    epoch = self.measured.values("best_epoch", group).get(seed)
                    if epoch is None:
                        raise KeyError(f"{trial.name} has no best epoch; choose the metric by measure.best")
                    number: int | None = round(float(epoch) * self.measured.steps_per_epoch(group))
                else:
                    number = step
                if not kept or (number is not None and number not in kept):
                    there = ", ".join(map(str, sorted(kept))) or "none"
                    raise KeyError(
                        f"no parameters of {trial.name} after step {number}; kept: {there} (measure.weights)"
                    )
                return dict(kept[max(kept) if number is None else number])
        raise KeyError(f"this result has no trial of group {group!r} with seed {seed}")

    # ------------------------------------------------------------------ figures and reports

    def figure(
        self,
        name: str,
        ax: Any = None,
        *,
        groups: Groups | None = None,
        facet: str | None = None,
        color: str | None = None,
        labels: Mapping[str, str] | None = None,
        title: str | None = None,
        size: str = "page",
    ) -> Any:
        """A figure of the study or of the micro-world as a matplotlib figure; with `ax`, drawn on those axes.

        groups: which groups to show: their names, settings (`"depth=5|20|80, init=he_normal"`), or a mapping of
            settings to values; default: all.
        facet: the setting that makes panels; color: the setting that gives the hue (`"depth"`, `"skip"`).
        labels: names for levels and arms, as in a study: `{"skip=none": "plain"}`.
        size: `page`, `column` (of a paper) or `slide`.
        """
        return draw_one(self.chart(name, FigureRequest(groups, facet, color, labels or {}, title)), ax, size=size)

    def chart(self, name: str, request: FigureRequest | None = None) -> Chart:
        """The data of a figure, whether or not the report shows it; an `InvalidInput` says what cannot be shown."""
        return requested_chart(self.measured, self.audit, self.story.pictures, name, request or FigureRequest())

    def figure_names(self) -> dict[str, str]:
        """The figures that this result has, each with a line on what it shows."""
        return list_figures(self.measured, self.story.pictures)

    def report(self) -> str:
        """The report as Markdown."""
        return render_markdown(self.story, self.story.pictures)

    def page(self) -> str:
        """The report as one HTML file that needs nothing else."""
        drawn = draw_page_files(self.story.pictures)
        return render_page(self.story, self.story.pictures.without(drawn.broken), drawn.svg)

    def save(self, out: str | Path) -> Path:
        """Write study, results, figures and report to a folder; gives the report's path."""
        return save_run(self.story, Path(out))

    def rewrite(self, formats: Sequence[str] = ("html", "md")) -> Path:
        """Make figures and report again in the run's own folder; gives the path of the first format."""
        if self.folder is None:
            raise StoreError("this result has no folder; save it to one")
        return write_report(self.story, RunFolder(self.folder), formats=formats)

    def export(self, to: str, table: str = "summary") -> bytes:
        """A table (see `arrow`) as csv, parquet or json; the summary also as latex."""
        check_export(to, table)
        return render_latex(self.story) if to == "latex" else render_table_as(self.arrow(table), to)

    def write_export(self, sink: IO[bytes], to: str, table: str = "summary") -> None:
        """Write what `export` gives. Curves and layers of very many rows are read and written chunk by chunk.

        Their rows are then in the order in which trials finished, not in that of the plan.
        """
        check_export(to, table)
        if table in ("curves", "layers") and self.measured.records.count_rows(table) > MOST_ROWS:
            write_streamed(self.measured.stream(table), to, sink)
        else:
            sink.write(self.export(to, table))

    def to_json(self) -> dict[str, Any]:
        """One object: study, run, audit, trials, groups with their metrics, claims."""
        return self.story.to_json(None if self.folder is None else str(self.folder))

    def _repr_html_(self) -> str:
        return render_notebook(self.story)


# A run's folder as a result. Nothing is trained, no data are needed, no code of the run is executed.


def open_run(folder: str | Path, *, trust: bool = False) -> Result:
    """The result of a run in a folder, finished or not.

    Nothing that came with the run is executed, wherever it came from. With `trust`, the user parts it was made with are
    loaded from its folder (their checksums have to match): for figures they draw, and for looking into networks again.
    """
    run = RunFolder.open(Path(folder))
    plan = _restore_plan(run.plan, run.path, trust)
    history = read_history(run.path)
    return Result(
        Measured(plan, run.records),
        run.environment,
        str(run.plan.get("command", "")),
        folder=run.path,
        audit=run.audit,
        recording=run.read(MICROWORLD, partial(_read_recording, plan)),
        layer_names=names_by_group(plan, run.layer_names),
        notes=(*run.notes, *history.problems),
        history=history,
        project=standing_of(run.path),
    )


def _read_recording(plan: Plan, tree: Mapping[str, Any]) -> Recording:
    found = Recording.from_json(tree)
    if odd := set(found.arms) - {planned.group.name for planned in plan.groups}:
        raise ValueError(f"arms: {shortened(min(odd))} is not an arm of the study")
    if plan.own_code:
        raise ValueError("only networks of the lab are looked into")
    return found


def _restore_plan(tree: Mapping[str, Any], path: Path, trust: bool) -> Plan:
    """The plan of a saved run; code of its own is run only with `trust`."""
    try:
        own = part_files(tree, path)
        catalog = BUILT_IN if not own else load_parts(own) if trust else Catalog.unread(own)
        return restored(tree, files.resolve(tree["tree"], str(path), quick=tree["quick"], catalog=catalog))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StoreError(f"{path / PLAN} is damaged: {described(error)}") from None
