"""What every executor has to keep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from gradlab.plans.plan import make_plan
from gradlab.runs.executors.base import Executor
from gradlab.runs.executors.inline import Inline
from gradlab.runs.monitor import Monitor
from gradlab.runs.worker import Bundle
from gradlab.spec.files import resolve
from gradlab.testing.base import Check, check, require
from gradlab.testing.trials import small_tree
from gradlab.trials.result import TrialResult


def checks(part: Executor) -> Iterator[Check]:
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
