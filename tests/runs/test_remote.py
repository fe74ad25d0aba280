"""Trials on other machines: what travels, fingerprints, batches that have to run again."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

import gradlab
from gradlab.data import base
from gradlab.data.file import File
from gradlab.engines.reference import Reference
from gradlab.errors import InvalidInput, PartError
from gradlab.runs import remote
from gradlab.runs.executors.base import bundle_trials, named_executor
from gradlab.runs.remote import (
    Answer,
    Dispatch,
    RemoteWorker,
    TrialBatch,
    compare_fingerprints,
    pack_results,
    pack_trials,
    take_fingerprint,
    unpack_results,
)
from gradlab.runs.worker import Monitor, run_bundle, run_trial
from gradlab.trials.outcome import TrialResult, digest


def test_a_bundle_is_small_because_what_trials_share_travels_once(tree: dict[str, Any]) -> None:
    plan = gradlab.plan(tree, seeds=100)
    inputs, batches = pack_trials(bundle_trials(plan, plan.trials, 1))
    assert sum(map(len, batches)) == 200
    assert len(inputs.groups) == 2
    assert len(pickle.dumps(batches)) < 60 * 200


def test_a_remote_worker_gives_the_bits_of_this_process(tree: dict[str, Any]) -> None:
    plan = gradlab.plan(tree)
    inputs, batches = pack_trials([plan.trials])
    answer = RemoteWorker(pickle.loads(pickle.dumps(inputs))).run(batches[0])
    results = unpack_results(answer.results, {trial.id: trial for trial in plan.trials})
    assert {r.trial.id: r.digest for r in results} == {t.id: run_trial(t).digest for t in plan.trials}
    assert answer.environment is None
    assert unpack_results(answer.results, {}) == []  # nobody asked for them, or they came twice


def test_a_worker_of_another_kind_is_refused_or_marked(tree: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    plan = gradlab.plan(tree)
    other = {**take_fingerprint(), "processor": "abacus", "node": "attic"}
    inputs, batches = pack_trials([plan.trials[:1]])
    mixed, _ = pack_trials([plan.trials[:1]], mixed=True)
    monkeypatch.setattr(remote, "take_fingerprint", lambda: other)
    answer = RemoteWorker(inputs).run(batches[0])
    assert answer.results == b""
    assert answer.refusal is not None
    assert answer.refusal.startswith("the worker on attic is refused, because the same trial may give different bits")
    assert "(processor was " in answer.refusal
    accepted = RemoteWorker(mixed).run(batches[0])
    assert len(unpack_results(accepted.results, {plan.trials[0].id: plan.trials[0]})) == 1
    assert accepted.environment == other


def test_another_gradlab_is_another_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    here = take_fingerprint()
    assert compare_fingerprints(here, take_fingerprint()) == []
    (difference,) = compare_fingerprints(here, {**here, remote.SOURCE: "0" * 16})
    assert "with different source files" in difference


def test_every_place_that_makes_bits_is_in_the_fingerprint() -> None:
    root = Path(gradlab.__file__).parent
    assert all((root / room).is_dir() for room in remote.ROOMS)
    assert all((root / file).is_file() for file in remote.FILES)


def test_part_files_travel_with_their_text(
    tree: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRADLAB_CACHE", str(tmp_path / "cache"))
    part = """
        import numpy as np
        from gradlab.parts import Activation

        class Half(Activation):
            '''x / 2.'''
            name = "half"
            def forward(self, x): return x / 2
            def slope(self, x, y): return np.full_like(x, 0.5)
    """
    path = tmp_path / "half.py"
    path.write_text(dedent(part))
    tree |= {"parts": [str(path)]}
    tree["base"]["model"] |= {"activation": "half"}
    plan = gradlab.plan(tree)
    inputs, batches = pack_trials([plan.trials[:1]])
    wanted = run_trial(plan.trials[0]).digest
    path.unlink()  # as on another machine
    answer = RemoteWorker(pickle.loads(pickle.dumps(inputs))).run(batches[0])
    (result,) = unpack_results(answer.results, {plan.trials[0].id: plan.trials[0]})
    assert result.digest == wanted
    changed = replace(inputs, parts=tuple(replace(part, identity="0") for part in inputs.parts))
    with pytest.raises(PartError, match="put them into one file"):
        changed.trials(batches[0])


def test_data_that_were_placed_are_not_read_from_their_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "_placed", {})
    rng = np.random.default_rng(0)
    path = tmp_path / "some.npz"
    np.savez(path, x=rng.standard_normal((40, 3)), y=rng.integers(0, 2, 40))
    task = File(path=str(path))
    facts, arrays = task.facts(), {task.source(): task.read()}
    path.unlink()
    base.place(arrays)
    assert task.facts() == facts
    assert File(path=str(path), test=0.5).source() == task.source()  # the same file, whatever becomes of its rows
    assert task.load(rng, rng).inputs.shape == (40, 3)


def test_failed_diverged_and_not_finite_results_arrive_as_they_were(tree: dict[str, Any]) -> None:
    tree["measure"] = {"layers": ["start", "end"], "weights": ["start", "end"]}
    tree["base"]["model"]["norm"] = "batch"
    first, second, third, fourth = run_bundle(gradlab.plan(tree).trials, Monitor())
    assert first.outcome is not None
    assert second.outcome is not None
    assert third.outcome is not None
    assert any(snapshot.running for snapshot in first.outcome.snapshots)
    values = second.outcome.layers.value.copy()
    values[:3] = np.nan, np.inf, -np.inf
    odd = replace(second, outcome=replace(second.outcome, layers=replace(second.outcome.layers, value=values)))
    late = replace(third, outcome=replace(third.outcome, status="diverged"))
    failed = TrialResult(fourth.trial, None, "ValueError: no", 0.5, digest(fourth.trial.id, None, "ValueError: no"))
    sent = [first, odd, failed, late]
    back = unpack_results(pack_results(sent), {result.trial.id: result.trial for result in sent})
    assert [result.status for result in back] == ["done", "done", "failed", "diverged"]
    for before, after in zip(sent, back, strict=True):
        assert after.trial is before.trial
        assert (after.error, after.seconds, after.digest) == (before.error, before.seconds, before.digest)
        ids = before.trial.id, after.trial.id
        assert digest(ids[0], before.outcome, before.error) == digest(ids[1], after.outcome, after.error)
        assert after.outcome is None or after.outcome.theta.size == 0
    assert [result.trial.id for result in unpack_results(pack_results(sent), {first.trial.id: first.trial})] == [
        first.trial.id
    ]


class Notebook(Dispatch):
    """Writes down what would be handed out."""

    def hand_out(self, batch: TrialBatch) -> None:
        self.handed_out = [*getattr(self, "handed_out", ()), batch]


def test_a_trial_that_ends_its_worker_is_found_by_halving_and_fails(tree: dict[str, Any]) -> None:
    plan = gradlab.plan(tree, seeds=4)
    dispatch = Notebook([plan.trials], Monitor(), mixed=False)
    deadly = plan.trials[5].id
    waiting, failed = list(dispatch.batches), []
    while waiting:
        batch = waiting.pop()
        dispatch.handed_out = []
        if deadly in (key[2] for key in batch):
            failed += dispatch.retry(batch, "its worker died")
        else:
            results = run_bundle(dispatch.inputs.trials(batch), Monitor())
            assert len(dispatch.accept(batch, Answer(pack_results(results)))) == len(batch)
        waiting += dispatch.handed_out
    assert [(result.trial.id, result.error) for result in failed] == [(deadly, "its worker died")]
    assert dispatch.trials == {}


def test_what_a_worker_did_not_finish_is_handed_out_again_unless_the_run_stops(tree: dict[str, Any]) -> None:
    plan = gradlab.plan(tree)
    dispatch = Notebook([plan.trials], Monitor(), mixed=False)
    (batch,) = dispatch.batches
    answer = Answer(pack_results([run_trial(plan.trials[0])]))
    assert [result.trial for result in dispatch.accept(batch, answer)] == [plan.trials[0]]
    assert dispatch.handed_out == [batch[1:]]
    dispatch.monitor.stop()
    assert dispatch.accept(batch, answer) == []  # it came twice
    assert dispatch.handed_out == [batch[1:]]


def test_one_worker_compiles_while_the_others_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    monkeypatch.setenv("GRADLAB_CACHE", str(tmp_path))
    inside: list[int] = []
    most = 0

    def compile_something() -> None:
        nonlocal most
        with remote.compiling_alone():
            inside.append(1)
            most = max(most, len(inside))
            threading.Event().wait(0.02)
            inside.pop()

    threads = [threading.Thread(target=compile_something) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


def test_settings_of_an_executor_are_checked(tree: dict[str, Any]) -> None:
    plan = gradlab.plan(tree)
    executor = named_executor("slurm", plan, settings={"cpus": "8", "jobs": "2"})
    assert executor.width(1000) == 16
    with pytest.raises(InvalidInput, match="did you mean 'cpus'"):
        named_executor("slurm", plan, settings={"cpu": "8"})
    with pytest.raises(InvalidInput, match="the executor slurm: cpus: Input should be a valid integer"):
        named_executor("slurm", plan, settings={"cpus": "many"})
    with pytest.raises(InvalidInput, match="the executor pool has no setting 'address'"):
        named_executor("pool", plan, settings={"address": "x"})


def test_a_worker_compiles_alone_and_looks_for_kernels_once(
    tree: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    tree["base"]["train"]["engine"] = "reference"
    plan = gradlab.plan(tree, seeds=3)
    events: list[str] = []
    run = remote.run_bundle

    def announce(self: Reference, config: Any, catalog: Any) -> str | None:
        events.append("look")
        return None if "run" in events else "compiling"

    @contextmanager
    def lock() -> Iterator[None]:
        events.append("locked")
        yield
        events.append("free")

    def train(trials: Any, monitor: Monitor) -> Any:
        events.append("run")
        return run(trials, monitor)

    monkeypatch.setattr(Reference, "announcement", announce)
    monkeypatch.setattr(remote, "compiling_alone", lock)
    monkeypatch.setattr(remote, "run_bundle", train)
    arms = [tuple(trial for trial in plan.trials if trial.group == planned.group.name) for planned in plan.groups]
    inputs, batches = pack_trials([*arms, arms[0]])
    worker = RemoteWorker(inputs)
    for batch in batches:
        worker.run(batch)
    first = ["look", "locked", "look", "run", "free"]
    assert events == [*first, "look", "run", "run"]  # once for every configuration
