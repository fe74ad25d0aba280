"""Write a whole run to a tracker, or every trial as it finishes; both may be repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from gradlab.errors import EnvironmentFault, GradlabError, described
from gradlab.notices import say
from gradlab.parts import Catalog
from gradlab.plans.plan import Plan, PlannedGroup
from gradlab.report.result import Result
from gradlab.runs.store.records import MemoryChunk, Records
from gradlab.runs.store.tables import COLUMNS
from gradlab.trackers.base import GroupRecord, Series, Session, StudyRecord, Tracker, TrialRecord
from gradlab.trials.outcome import TrialResult
from gradlab.trials.trial import TrialLabel


@dataclass(frozen=True)
class Exported:
    """What an export wrote; zeros if everything was there."""

    tracker: str
    place: Path
    trials: int
    groups: int
    studies: int
    hint: str

    @property
    def sentence(self) -> str:
        """One line for people."""
        if not self.trials and not self.groups and not self.studies:
            return f"{self.tracker}: {self.place} is up to date"
        return f"{self.tracker}: wrote {self.trials:,} trials and {self.groups:,} groups to {self.place}"


def named_tracker(name: str, catalog: Catalog) -> Tracker:
    """Return the tracker of this name, after checking that its package is installed."""
    tracker: Tracker = catalog.make("tracker", name, {})
    tracker.require()
    return tracker


def export_run(result: Result, tracker: Tracker, place: Path) -> Exported:
    """Write all trials, groups and the study to the tracker's folder; what is there already is left alone."""
    try:
        return _write_run(result, tracker, place)
    except (GradlabError, OSError):
        raise
    except Exception as error:  # a foreign library
        raise EnvironmentFault(f"{tracker.name} cannot write the run to {place}: {described(error)}") from error


def _write_run(result: Result, tracker: Tracker, place: Path) -> Exported:
    place.mkdir(parents=True, exist_ok=True)
    session = tracker.open(place, result.study.name)
    plan, records = result.measured.plan, result.measured.records
    try:
        trials = sum(session.keep_trial(record) for record in stream_trials(plan.groups, plan.trials, records))
        groups = sum(session.keep_group(record) for record in stream_groups(result))
        studies = int(session.keep_study(study_record(result)))
    finally:
        session.close()
    return Exported(tracker.name, place, trials, groups, studies, tracker.view(place))


class LiveTracking:
    """Writes trials to trackers while a run goes on, in a thread of its own. A tracker that fails does not stop it."""

    def __init__(self, trackers: Sequence[Tracker], plan: Plan, out: Path) -> None:
        self._trackers, self._plan, self._out = trackers, plan, out
        self._sessions: dict[str, Session] = {}
        self._broken: set[str] = set()
        self._thread = ThreadPoolExecutor(1, "gradlab-track")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._thread.shutdown()
        for name, session in self._sessions.items():
            self._attempt(name, session.close)

    def add(self, results: Sequence[TrialResult]) -> None:
        """Write these trials soon."""
        if self._trackers:
            self._thread.submit(self._for_each, lambda tracker: self._keep(tracker, results))

    def finish(self, result: Result) -> list[Exported]:
        """Write what only the whole run has: groups, verdicts, the report; and trials of earlier calls."""
        exported: list[Exported] = []
        self._for_each(lambda tracker: exported.append(_write_run(result, tracker, self._out / tracker.name)))
        return exported

    def _keep(self, tracker: Tracker, results: Sequence[TrialResult]) -> None:
        if tracker.name not in self._sessions:
            place = self._out / tracker.name
            place.mkdir(parents=True, exist_ok=True)
            self._sessions[tracker.name] = tracker.open(place, self._plan.study.name)
        records = Records([MemoryChunk.of(results)])
        for record in stream_trials(self._plan.groups, [result.trial for result in results], records):
            self._sessions[tracker.name].keep_trial(record)

    def _for_each(self, action: Callable[[Tracker], object]) -> None:
        for tracker in self._trackers:
            if tracker.name not in self._broken:
                self._attempt(tracker.name, partial(action, tracker))

    def _attempt(self, name: str, action: Callable[[], object]) -> None:
        try:
            action()
        except Exception as error:  # a foreign library: the run and its results do not depend on it
            self._broken.add(name)
            retry = f"after the run: gradlab export RUN --to {name}"
            say(f"the tracker {name} failed and is skipped ({described(error)}); to try again {retry}")


# The records of a run, read chunk by chunk.


def describe_settings(planned: PlannedGroup) -> dict[str, Any]:
    """Every parameter of a group by its path: the whole configuration, and what the study says of it."""
    settings: dict[str, Any] = {}
    if planned.network is not None:
        _flatten(planned.config.model_dump(mode="json", exclude_none=True), "", settings)
    return settings | {path: value for path, value in planned.group.settings.items() if not isinstance(value, dict)}


def _flatten(tree: Any, path: str, into: dict[str, Any]) -> None:
    if isinstance(tree, Mapping) and tree:
        for key, value in tree.items():
            _flatten(value, f"{path}.{key}" if path else str(key), into)
    elif path:
        into[path] = tree


def stream_trials(
    groups: Iterable[PlannedGroup], trials: Iterable[TrialLabel], records: Records
) -> Iterator[TrialRecord]:
    """Yield those of these trials that belong to one of the groups and have a result, one chunk at a time."""
    settings = {planned.group.name: describe_settings(planned) for planned in groups}
    labels: dict[str, list[TrialLabel]] = {}
    for trial in trials:
        if trial.group in settings:
            labels.setdefault(trial.id, []).append(trial)
    for chunk in records.chunks:
        table = chunk.table("trials")
        names = [name for name in table.column_names if name not in COLUMNS]
        curves, layers = _series_of(chunk.table("curves"), "metric"), _series_of(chunk.table("layers"), "measure")
        for row in table.to_pylist():
            identity = row["trial"]
            if records.digests[identity] != row["digest"]:
                continue  # a later chunk has its result
            for label in labels.get(identity, ()):
                yield TrialRecord(
                    identity,
                    label.group,
                    label.seed,
                    row["status"],
                    row["digest"],
                    row["error"],
                    settings[label.group],
                    {name: row[name] for name in names if row[name] is not None},
                    curves.get(identity, {}),
                    layers.get(identity, {}),
                )


def _series_of(table: Any, word: str) -> dict[str, dict[str, Series]]:
    """Trial -> metric, or measure and layer -> its series."""
    frame = table.to_pandas()
    keys = ["trial", word, *(["layer"] if "layer" in frame else [])]
    deepest = frame.groupby("trial", observed=True)["layer"].max() if "layer" in frame else {}
    series: dict[str, dict[str, Series]] = {}
    for (trial, name, *layer), rows in frame.groupby(keys, observed=True):
        label = f"{name}/layer {layer[0]:0{len(str(deepest[trial]))}d}" if layer else name
        series.setdefault(trial, {})[label] = rows["step"].to_numpy(), rows["value"].to_numpy()
    return series


def stream_groups(result: Result) -> Iterator[GroupRecord]:
    """Yield every group that has results, with the spread of its curves over seeds."""
    measured = result.measured
    for name, trials in measured.by_group.items():
        if not trials:
            continue
        digests = sorted(measured.records.digests[trial.id] for trial in trials)
        by_metric = {
            metric: [curve for curve in measured.curve(metric, name) if len(curve[0])]
            for metric in measured.curve_names
        }
        curves = {metric: spread(seeds) for metric, seeds in by_metric.items() if seeds}
        metrics = {
            metric: {word: summary[word] for word in ("mean", "low", "high") if isinstance(summary.get(word), float)}
            for metric, summary in result.story.metrics.get(name, {}).items()
        }
        planned = measured.entries[name]
        digest = sha256(repr(digests).encode()).hexdigest()[:16]
        yield GroupRecord(planned.id, name, len(trials), digest, describe_settings(planned), curves, metrics)


def spread(curves: Sequence[Series]) -> tuple[NDArray[np.int64], dict[str, NDArray[np.float64]]]:
    """Mean, smallest and largest over seeds at every step that all or some of them recorded."""
    steps = np.unique(np.concatenate([recorded for recorded, _ in curves]))
    table: Any = np.ma.array(np.zeros((len(curves), len(steps))), mask=True)
    for row, (recorded, values) in enumerate(curves):
        table[row, np.searchsorted(steps, recorded)] = values
    return steps, {"mean": table.mean(0).data, "low": table.min(0).data, "high": table.max(0).data}


def study_record(result: Result) -> StudyRecord:
    """The answer, the verdicts and the report."""
    verdicts = tuple(
        {"claim": verdict.claim.text, "outcome": verdict.words, "reason": verdict.reason} for verdict in result.verdicts
    )
    files = [result.folder / name for name in ("report.html", "report.md")] if result.folder is not None else []
    present = tuple(path for path in files if path.is_file())
    text = present[-1].read_text(encoding="utf8") if present and present[-1].suffix == ".md" else result.report()
    parts = [result.measured.hash, result.answer, repr(verdicts), text]
    digest = sha256("\0".join(parts).encode()).hexdigest()[:16]
    return StudyRecord(result.study.name, result.study.question, result.answer, verdicts, digest, text, present)
