"""The contracts of the parts that run, audit, draw and export."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from gradlab.audits.caveats.base import Caveat, Remark
from gradlab.audits.study import design_of
from gradlab.errors import InvalidInput
from gradlab.plans.plan import make_plan
from gradlab.report.charts import Chart
from gradlab.report.draw import draw_one, render_image
from gradlab.report.figures.base import Figure
from gradlab.report.result import Result
from gradlab.runs.executors.base import Executor
from gradlab.runs.executors.inline import Inline
from gradlab.runs.worker import Bundle, Monitor
from gradlab.spec.files import resolve
from gradlab.testing.base import (
    Check,
    check,
    require,
    small_comparison,
    small_result,
    small_sweep,
    small_tree,
    small_tuning,
)
from gradlab.trackers.base import Tracker
from gradlab.trackers.exporting import export_run
from gradlab.trials.outcome import TrialResult


def check_caveat(caveat: Caveat) -> list[Check]:
    """On a small study with two arms."""
    design = design_of(make_plan(resolve(small_tree(), "contract")))

    def remarks_are_sentences() -> None:
        for remark in caveat.remarks(design):
            require(isinstance(remark, Remark), f"gives {type(remark).__name__}, not a Remark")
            require(remark.words.strip().endswith("."), "a remark is a sentence and ends with a full stop")

    def twice_the_same() -> None:
        require(list(caveat.remarks(design)) == list(caveat.remarks(design)), "says something else the second time")

    return [check("its remarks are sentences", remarks_are_sentences), check("the same twice", twice_the_same)]


def check_executor(part: Executor) -> Iterator[Check]:
    """It runs every trial once, changes no bit, and stops when told to."""

    def complete() -> None:
        wanted = [trial.id for bundle in _bundles() for trial in bundle]
        found = [result.trial.id for result in _run(part, _bundles(), Monitor())]
        require(Counter(found) == Counter(wanted), f"{len(wanted)} trials were handed over, {len(found)} came back")

    def same_bits() -> None:
        ours = sorted(result.digest for result in _run(part, _bundles(), Monitor()))
        inline = sorted(result.digest for result in _run(Inline(), _bundles(), Monitor()))
        require(ours == inline, "results differ from those of the inline executor")

    def stops() -> None:
        monitor = Monitor()
        monitor.stop()
        require(_run(part, _bundles(), monitor) == [], "trials were run although the run was stopped before it began")

    def failures_stay_single() -> None:
        bundles = _bundles(broken=True)
        results = _run(part, bundles, Monitor())
        statuses = Counter(result.status for result in results)
        require(statuses["failed"] == 1 and statuses["done"] == 4, f"one of five trials fails; found {dict(statuses)}")

    yield check("runs every trial once", complete)
    yield check("gives the same bits as running inline", same_bits)
    yield check("runs nothing after it was told to stop", stops)
    yield check("a failing trial does not stop the others", failures_stay_single)


def _bundles(broken: bool = False) -> list[Bundle]:
    trials = make_plan(resolve(small_tree(), "contract")).trials
    bundles: list[Bundle] = [trials[:2], trials[2:3], trials[3:]]
    if broken:
        tree = {**small_tree(), "arms": None}
        tree["base"]["model"] |= {"width": 5}
        tree["base"]["data"] |= {"dim": 5}
        odd = make_plan(resolve(tree, "contract")).trials[0]
        narrow = type(odd.config.data).model_validate({"task": "identity", "dim": 4, "samples": 32})
        config = odd.config.model_copy(update={"data": narrow})
        bundles.insert(1, (type(odd)("broken", odd.group, odd.seed, odd.root, config, odd.catalog),))
    return bundles


def _run(executor: Executor, bundles: Sequence[Bundle], monitor: Monitor) -> list[TrialResult]:
    return [result for results in executor.run(bundles, monitor) for result in results]


def check_figure(part: Figure) -> Iterator[Check]:
    """It computes a chart (or nothing), and the chart can be drawn."""

    def draws() -> None:
        for measured in (small_result(), small_sweep(), small_tuning(), small_comparison()):
            chart = part.chart(measured)
            if chart is None:
                continue
            require(isinstance(chart, Chart), f"chart gives a {type(chart).__name__}")
            require(bool(chart.title and chart.x_label and chart.y_label), "a figure needs a title and both labels")
            require(render_image(draw_one(chart), "png").startswith(b"\x89PNG"), "it cannot be drawn")

    yield check("gives a chart that can be drawn", draws)


def check_tracker(part: Tracker) -> Iterator[Check]:
    """It writes a run into its folder, once; without its package it says how to install it."""
    installed = not part.package or find_spec(part.package) is not None

    def writes_once() -> None:
        result = Result(small_result(), {}, "gradlab run small")
        with TemporaryDirectory() as name:
            first = export_run(result, part, Path(name))
            require(first.trials == 4 and first.groups == 2, f"4 trials and 2 groups; it says {first.sentence}")
            require(any(Path(name).rglob("*")), "nothing is in its folder")
            again = export_run(result, part, Path(name))
            require(again.trials + again.groups + again.studies == 0, f"written again: {again.sentence}")

    def names_the_command() -> None:
        try:
            part.require()
        except InvalidInput as error:
            require(f"gradlab[{part.extra}]" in str(error), f"the message does not name the extra: {error}")

    yield check("names what it needs", names_the_command)
    if installed:
        yield check("writes a run once", writes_once)
    else:
        yield check("says which package is missing", names_the_command)
