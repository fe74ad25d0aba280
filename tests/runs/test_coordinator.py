"""The coordinator: hands out what is left, counts, and commits everything that comes back."""

from __future__ import annotations

from collections.abc import Collection, Generator
from pathlib import Path
from typing import Any

import pytest

import gradlab
from gradlab.errors import StoreError
from gradlab.plans.plan import Plan
from gradlab.runs import coordinator
from gradlab.runs.coordinator import Runner, Tally, run_trials
from gradlab.runs.store.folder import RunFolder
from gradlab.runs.worker import Monitor, run_trial
from gradlab.trials.outcome import TrialResult


def runner_of(plan: Plan, handed: list[list[str]], *, failing: Collection[int] = ()) -> Runner:
    """Trains one trial after the other; those at the given places fail instead."""

    def runner(ids: Collection[str], monitor: Monitor) -> Generator[list[TrialResult]]:
        handed.append(list(ids))
        wanted = [trial for trial in plan.trials if trial.id in set(ids)]
        for place, trial in enumerate(wanted):
            if monitor.stopping:
                return
            yield [TrialResult(trial, None, "planted") if place in failing else run_trial(trial)]

    return runner


def test_every_trial_is_handed_out_once_and_none_that_is_already_there(tree: dict[str, Any], tmp_path: Path) -> None:
    plan, handed = gradlab.plan(tree, seeds=2), []
    for _ in range(2):
        with RunFolder.start(tmp_path / "run", plan, {}) as folder:
            found = run_trials(plan, runner_of(plan, handed), folder)
            assert found.records.finished == {trial.id for trial in plan.trials}
    assert handed == [[trial.id for trial in plan.trials], []]


def test_results_stay_in_memory_without_a_folder(tree: dict[str, Any]) -> None:
    plan = gradlab.plan(tree, seeds=1)
    found = run_trials(plan, runner_of(plan, []), None)
    assert found.records.finished == {trial.id for trial in plan.trials}
    assert not found.stopped


def test_groups_that_are_the_same_trials_are_trained_once(tree: dict[str, Any]) -> None:
    tree["arms"] = {"one": {}, "same": {}}
    plan, handed = gradlab.plan(tree, seeds=2), []
    run_trials(plan, runner_of(plan, handed), None)
    assert len(handed[0]) == 2
    assert len(plan.trials) == 4


def test_the_tally_counts_what_was_there_and_what_came(tree: dict[str, Any], tmp_path: Path) -> None:
    plan, tallies = gradlab.plan(tree, seeds=3), []
    first = gradlab.plan(tree, seeds=1)
    with RunFolder.start(tmp_path / "run", first, {}) as folder:
        run_trials(first, runner_of(first, []), folder)
    with RunFolder.start(tmp_path / "run", plan, {}) as folder:
        run_trials(plan, runner_of(plan, [], failing=(0,)), folder, on_start=tallies.append)
    (tally,) = tallies
    assert isinstance(tally, Tally)
    assert (tally.planned, tally.todo, tally.failed) == (6, 4, 1)
    seen = tally.snapshot()
    assert (seen["done"], seen["failed"], seen["running"]) == (5, 1, [])
    assert tally.share == 1.0


def test_failing_fast_stops_after_the_first_failure(tree: dict[str, Any]) -> None:
    plan, came = gradlab.plan(tree, seeds=3), []
    run_trials(plan, runner_of(plan, [], failing=(1,)), None, fail_fast=True, on_results=came.extend)
    assert [result.status for result in came] == ["done", "failed"]


def test_ctrl_c_from_a_callback_keeps_what_is_finished(tree: dict[str, Any], tmp_path: Path) -> None:
    plan, stops = gradlab.plan(tree, seeds=3), []

    def interrupt(results: Any) -> None:
        raise KeyboardInterrupt

    with RunFolder.start(tmp_path / "run", plan, {}) as folder:
        runner = runner_of(plan, [])
        found = run_trials(plan, runner, folder, on_results=interrupt, on_stop=lambda: stops.append("stopped"))
    assert found.stopped
    assert stops == ["stopped"]
    assert len(found.records.finished) == 1
    assert gradlab.status(tmp_path / "run").done == 1


def test_a_disk_that_takes_nothing_more_ends_the_run_with_its_reason(
    tree: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, came = gradlab.plan(tree, seeds=20), []
    monkeypatch.setattr(coordinator, "COMMIT_SECONDS", 0.0)

    def full(self: RunFolder, results: Any) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(RunFolder, "commit", full)
    with RunFolder.start(tmp_path / "run", plan, {}) as folder, pytest.raises(StoreError, match="the disk is full"):
        run_trials(plan, runner_of(plan, []), folder, on_results=came.extend)
    assert len(came) < len(plan.trials)
