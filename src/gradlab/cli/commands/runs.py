"""Commands that read a run: `status`, `report`, `why`, `figure`, `export`, `verify`."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from gradlab.cli.commands import AsJson, RunPath, Tables, find_run
from gradlab.errors import InvalidInput, nearest

if TYPE_CHECKING:
    from gradlab.running.verify import Sample

FORMATS = ("png", "pdf", "svg", "csv")


def status(
    run: Annotated[
        Path | None,
        Argument(metavar="[RUN]", help="The run: its folder, or its name in runs/ [default: all].", callback=find_run),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the state of a run, or of all runs below this folder.

    Trials that are done, running, failed and left, and whether it is running now.

    Without RUN, all runs below the current folder are listed, one line each. Works while the study runs and after a
    crash: finished trials are counted from the files; only a living process knows what is running. Of a watch with
    `out=RUN` it shows the latest step that was probed: its loss, and what was found.
    """
    from gradlab.cli import states
    from gradlab.cli.output import answer, emit_json
    from gradlab.comparing.live import is_live, read_live
    from gradlab.runs.store.status import list_runs, status

    if run is not None and is_live(run):
        answer(read_live(run), states.live, as_json)
    elif run is not None:
        answer(status(run), states.status, as_json)
    elif as_json:
        emit_json({"runs": [state.to_json() for state in list_runs(Path())]})
    else:
        states.runs(list_runs(Path()))


def report(
    run: RunPath,
    against: Annotated[
        Path | None, Option(metavar="RUN", help="Another run: show the differences in studies and results.")
    ] = None,
    form: Annotated[
        str | None, Option("--format", metavar="html|md", help="Write only this format [default: both].")
    ] = None,
    pair: Annotated[tuple[str, str] | None, Option(metavar="ARM ARM", help="The two arms of the micro-world.")] = None,
    seed: Annotated[int | None, Option(help="The seed of the micro-world [default: the first].")] = None,
    trust: Annotated[
        bool, Option("--trust", help="Run the code of the run's own parts: for their figures, --pair and --seed.")
    ] = False,
    tables: Tables = False,
    open_it: Annotated[bool, Option("--open", help="Open the report in a browser.")] = False,
    as_json: AsJson = False,
) -> None:
    """Rewrite the report of a run, or compare two runs.

    Everything comes from the run folder, and nothing in it is executed without --trust; only with --pair or --seed two
    networks are trained again to be measured. report.html is a single self-contained file; report.md links to the
    figures beside it. A run in progress is reported with the trials finished so far. With --against, RUN is the first
    run and the other one the second: which settings differ, which trials have the same bits, and how the results
    differ, paired over seeds.
    """
    from gradlab import api
    from gradlab.cli import show
    from gradlab.cli.output import answer, emit_json, say_all
    from gradlab.comparing.live import is_live
    from gradlab.comparing.saving import RUN, save_live
    from gradlab.notices import say
    from gradlab.report.tables import against_json

    if is_live(run):
        save_live(run)
        run = run / RUN
    result = api.open_run(run, trust=trust)
    if against is not None or as_json:
        say_all(result.notes)
    if against is not None:
        other = api.open_run(against)
        say_all(other.notes)
        difference = api.against(result, other)
        emit_json(against_json(difference)) if as_json else show.against(difference)
        return
    if form not in (None, "html", "md"):
        raise InvalidInput(f"--format {form!r}: accepted: html, md")
    if pair is not None or seed is not None:
        result = api.look_again(result, pair, seed)
    folder = run
    if os.access(run, os.W_OK):
        page = result.rewrite(("html", "md") if form is None else (form,))
        folder = page.parent
        if open_it:
            show.open_page(page)
    else:
        say(f"no permission to write to {run}: the report is shown, not written, and the look not recorded")
    answer(result, lambda shown: show.result(shown, folder, tables=tables), as_json)


def why(
    run: RunPath,
    test: Annotated[
        bool, Option("--test", help="Train the same networks with the broken link mended, and say what it changes.")
    ] = False,
    out: Annotated[
        Path | None, Option(metavar="FOLDER", help="With --test: the folder of that run [default: RUN-why].")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say why the arms end apart, from init to result.

    The causal chain of the two groups that the answer hangs on, with a number per arm, and where it breaks. Signal and
    δ are those before training. Every number is over all seeds; where they show no mechanism, that is said.

    With --test the cause is not observed but changed: the affected arm is trained again with the link mended (an init
    scale that keeps δ, or a norm), beside both arms as they were, under the same seeds.

    gradlab why runs/identity --test
    """
    from gradlab import api
    from gradlab.cli import show
    from gradlab.cli.output import answer, emit_json, say_all

    if out is not None and not test:
        raise InvalidInput("--out is the folder of --test; give both")
    result = api.open_run(run)
    say_all(result.notes)
    told = result.why
    if told is None:
        raise InvalidInput(f"{run}: there are no two groups with a result to compare")
    if not test:
        answer(told, lambda shown: show.why(shown, str(run)), as_json)
        return
    from gradlab.cli.running import find_work, train
    from gradlab.tell.why import tell_test

    planned = api.plan(api.mend(result))
    folder = out or run.with_name(f"{run.name}-why")
    work = find_work(planned, folder, None)
    tested = train(work, folder, live=False, quiet=as_json, command=f"gradlab why {run} --test")
    if as_json:
        emit_json({"why": told.to_json(), "test": tested.to_json(), "share": tell_test(tested.measured)})
    else:
        show.tested(tested, folder)


def figure(
    run: Annotated[
        Path | None,
        Argument(metavar="[RUN]", help="The run: its folder, or its name below runs/.", callback=find_run),
    ] = None,
    name: Annotated[
        str | None, Argument(metavar="[NAME]", help="The figure; without it, the figures of the run are listed.")
    ] = None,
    groups: Annotated[
        list[str] | None,
        Option(metavar="GROUPS", help="Show only these: a group's name, or depth=5|20, init=he_normal."),
    ] = None,
    facet: Annotated[str | None, Option(metavar="SETTING", help="One panel for each of its values.")] = None,
    color: Annotated[str | None, Option(metavar="SETTING", help="One hue for each of its values.")] = None,
    label: Annotated[
        list[str] | None, Option(metavar="LEVEL=TEXT", help="Rename a level or an arm: skip=none=plain.")
    ] = None,
    title: Annotated[str | None, Option(help="A title of your own; empty: none.")] = None,
    size: Annotated[str, Option(metavar="SIZE", help="page, column (of a paper) or slide.")] = "page",
    to: Annotated[
        str | None, Option(metavar="FORMAT", help="png, pdf, svg, or csv: the numbers [default: png].")
    ] = None,
    out: Annotated[Path | None, Option(help="The file to write [default: NAME.FORMAT; - is stdout].")] = None,
    trust: Annotated[bool, Option("--trust", help="Run the code of the run's own figures.")] = False,
    as_json: Annotated[bool, Option("--json", help="List the figures as one JSON object.")] = False,
) -> None:
    """Draw one figure of a run, list its figures, or list the runs.

    Gradients by layer at three depths, with and without the skip, on a slide:

    gradlab figure runs/depth gradient_at_start_by_layer --facet depth --color skip --size slide --to pdf
    """
    from gradlab import api
    from gradlab.cli.output import emit_json, hang, say_all
    from gradlab.report.draw import render_chart
    from gradlab.report.export import render_csv
    from gradlab.report.pictures import FigureRequest
    from gradlab.runs.store.files import write_bytes
    from gradlab.words import visible

    if run is None:
        status(None, as_json)
        return
    kind = _choose_format(to, out)
    new_labels = dict(_parse_label(text) for text in label or ())
    result = api.open_run(run, trust=trust)
    say_all(result.notes)
    if name is None:
        captions = result.figure_names()
        if as_json:
            emit_json(captions)
            return
        widest = max(map(len, captions), default=0)
        for figure_name, caption in captions.items():
            typer.echo(hang(f"{figure_name:<{widest}}  ", visible(caption)))
        return
    chart = result.chart(name, FigureRequest(groups or None, facet, color, new_labels, title))
    content = render_csv(*chart.table()) if kind == "csv" else render_chart(chart, kind, size=size)
    if out is not None and str(out) == "-":
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    path = out or Path(f"{name}.{kind}")
    write_bytes(path, content)
    say_all([chart.caption])
    typer.echo(path)


def _choose_format(to: str | None, out: Path | None) -> str:
    """The format that is asked for, or that the name of the file has."""
    suffix = out.suffix.removeprefix(".").lower() if out is not None else ""
    kind = to or (suffix if suffix in FORMATS else "png")
    if kind not in FORMATS:
        raise InvalidInput(f"--to {kind!r}: accepted: {', '.join(FORMATS)}{nearest(kind, FORMATS)}")
    return kind


def _parse_label(text: str) -> tuple[str, str]:
    level, equals, name = text.rpartition("=")
    if not equals or not level or not name:
        raise InvalidInput(f"--label {text!r}: write level=text, such as skip=none=plain, or arm=text")
    return level, name


def export(
    run: RunPath,
    to: Annotated[str, Option(metavar="FORMAT", help="csv, parquet, json or latex; or tensorboard, mlflow, wandb.")],
    table: Annotated[
        str,
        Option(
            metavar="NAME", help="summary (one row per group and metric), claims, trials, curves, layers or tuning."
        ),
    ] = "summary",
    out: Annotated[
        Path | None, Option(help="The file to write [default: stdout], or the tracker's folder [default: RUN/NAME].")
    ] = None,
) -> None:
    """Export a table of a run, or the whole run to a tracker.

    Tables as csv, parquet, json, or LaTeX with intervals.

    In every format NaN, infinity and missing stay distinct. The files in RUN/results are plain Parquet: pandas,
    polars and DuckDB read them without an export. For a tracker every trial, the mean of every group, the verdicts and
    the report are written to a folder on this disk; doing it again writes only what is new, and nothing is sent.
    RUN may also be the folder of a watch on the disk (`gradlab.watch(…, out=RUN)`), finished, running or killed.
    """
    from gradlab import api
    from gradlab.cli.output import say_all
    from gradlab.comparing.live import is_live
    from gradlab.comparing.saving import opened_live
    from gradlab.parts import BUILT_IN
    from gradlab.report.export import check_export
    from gradlab.runs.store.files import writing

    trackers = BUILT_IN.names("tracker")
    if to in trackers:
        if table != "summary":
            raise InvalidInput(f"--table {table}: a tracker gets the whole run; leave --table out")
    else:
        check_export(to, table, trackers)
        if out is None and to == "parquet" and sys.stdout.isatty():
            raise InvalidInput("--to parquet writes bytes, not text; give a file with --out")
    with opened_live(run) if is_live(run) else nullcontext(run) as place:
        if to in trackers:
            written = api.export(place, to, out or run / to)
            say_all([written.sentence, f"to view it: {written.hint}"])
            return
        result = api.open_run(place)
        say_all(result.notes)
        if out is not None:
            with writing(out) as file:
                result.write_export(file, to, table)
        else:
            result.write_export(sys.stdout.buffer, to, table)
            sys.stdout.buffer.flush()


def verify(
    run: RunPath,
    everything: Annotated[bool, Option("--all", help="Train every trial again.")] = False,
    sample: Annotated[
        int | None,
        Option(metavar="N", help="Train so many trials again [default: all that fit into 30 s, at least 3].", min=0),
    ] = None,
    seed: Annotated[int | None, Option(metavar="S", help="Decides which ones.", min=0)] = None,
    call: Annotated[
        str | None, Option(metavar="MODULE:FUNCTION", help="The function that a comparison called, to call it again.")
    ] = None,
    trust: Annotated[bool, Option("--trust", help="Run the code of parts that came with the run.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check a run's ledger, files and results; retrain some trials.

    The ledger is an unbroken chain, every file holds what was written (the report and its figures too), every result
    that was ever committed is there and fits its digest, and trials that are trained again give the same bits. Exit
    codes: 0 nothing found, 1 something does not check out, or --all or --sample could not be done here. What was
    changed after results were known (claims, seeds, groups, labels) is listed, and is not an error.
    """
    from gradlab import api
    from gradlab.cli import show
    from gradlab.cli.loading import load_module, loaded
    from gradlab.cli.output import answer

    if everything and sample is not None:
        raise InvalidInput("--all trains every trial again; leave --sample out")
    retrained: Sample = None if everything else "time" if sample is None else sample
    function = None if call is None else loaded(call)
    arms = None if call is None else getattr(load_module(call), "ARMS", None)
    verification = api.verify(run, sample=retrained, seed=seed, trust=trust, call=function, arms=arms)
    answer(verification, show.verification, as_json)
    if not verification.ok or ((everything or sample) and not verification.checks[-1].done):
        raise typer.Exit(1)
