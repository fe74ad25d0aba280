"""Write a whole run to a tracker, or every trial as it finishes; both may be repeated."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from gradlab.errors import EnvironmentFault, GradlabError, described
from gradlab.notices import say
from gradlab.parts import Catalog
from gradlab.plans.plan import Plan, PlannedGroup
from gradlab.report.result import Result
from gradlab.trackers.base import Session, Tracker
from gradlab.trackers.records import entries_of, record_of, stream_groups, stream_trials, study_record
from gradlab.trials.outcome import TrialResult


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
    try:
        trials = sum(session.keep_trial(record) for record in stream_trials(result.measured))
        groups = sum(session.keep_group(record) for record in stream_groups(result))
        studies = int(session.keep_study(study_record(result)))
    finally:
        session.close()
    return Exported(tracker.name, place, trials, groups, studies, tracker.view(place))


class LiveTracking:
    """Writes trials to trackers while a run goes on, in a thread of its own. A tracker that fails does not stop it."""

    def __init__(self, trackers: Sequence[Tracker], plan: Plan, out: Path) -> None:
        self._trackers, self._out = trackers, out
        self._study = plan.study.name
        self._entries: Mapping[str, PlannedGroup] = entries_of(plan)
        self._sessions: dict[str, Session] = {}
        self._broken: set[str] = set()
        self._queue: queue.Queue[Sequence[TrialResult] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._keep_all, name="gradlab-track", daemon=True)

    def __enter__(self) -> Self:
        if self._trackers:
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if not self._trackers:
            return
        self._queue.put(None)
        self._thread.join()
        for name, session in self._sessions.items():
            self._attempt(name, session.close)

    def add(self, results: Sequence[TrialResult]) -> None:
        """Write these trials soon."""
        if self._trackers:
            self._queue.put(results)

    def finish(self, result: Result) -> list[Exported]:
        """Write what only the whole run has: groups, verdicts, the report; and trials of earlier calls."""
        found: list[Exported] = []
        for tracker in self._trackers:
            if tracker.name not in self._broken:
                place = self._out / tracker.name
                self._attempt(tracker.name, partial(_append, found, result, tracker, place))
        return found

    def _keep_all(self) -> None:
        while (results := self._queue.get()) is not None:
            for tracker in self._trackers:
                if tracker.name not in self._broken:
                    self._attempt(tracker.name, partial(self._keep, tracker, results))

    def _keep(self, tracker: Tracker, results: Sequence[TrialResult]) -> None:
        if tracker.name not in self._sessions:
            place = self._out / tracker.name
            place.mkdir(parents=True, exist_ok=True)
            self._sessions[tracker.name] = tracker.open(place, self._study)
        for result in results:
            if (planned := self._entries.get(result.trial.group)) is not None:
                self._sessions[tracker.name].keep_trial(record_of(result, planned))

    def _attempt(self, name: str, action: Callable[[], object]) -> None:
        try:
            action()
        except Exception as error:  # a foreign library: the run and its results do not depend on it
            self._broken.add(name)
            retry = f"after the run: gradlab export RUN --to {name}"
            say(f"the tracker {name} failed and is skipped ({described(error)}); to try again {retry}")


def _append(found: list[Exported], result: Result, tracker: Tracker, place: Path) -> None:
    found.append(_write_run(result, tracker, place))
