"""What travels to other machines: tickets, cargo, fingerprints, bundles by measured time."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

import gradlab
from gradlab.data import placed
from gradlab.data.file import File
from gradlab.engines.reference import Reference
from gradlab.errors import InvalidInput, PartError
from gradlab.runs import compiling, fingerprint, remote
from gradlab.runs.bundles import bundle_trials, named_executor
from gradlab.runs.fingerprint import compare_fingerprints, take_fingerprint
from gradlab.runs.freight import unload_results
from gradlab.runs.monitor import Monitor
from gradlab.runs.packing import Packer
from gradlab.runs.parcels import pack
from gradlab.runs.remote import RemoteWorker
from gradlab.runs.worker import run_trial


def test_a_bundle_is_small_because_what_trials_share_travels_once(tree: dict[str, Any]) -> None:
    plan = gradlab.plan(tree, seeds=100)
    cargo, tickets = pack(bundle_trials(plan, plan.trials, 1))
    assert sum(map(len, tickets)) == 200
    assert len(cargo.groups) == 2
    assert len(pickle.dumps(tickets)) < 60 * 200


def test_a_remote_worker_gives_the_bits_of_this_process(tree: dict[str, Any]) -> None:
    plan = gradlab.plan(tree)
    cargo, tickets = pack([plan.trials])
    answer = RemoteWorker(pickle.loads(pickle.dumps(cargo))).run(tickets[0], Monitor())
    results = unload_results(answer.results, {trial.id: trial for trial in plan.trials})
    assert {r.trial.id: r.digest for r in results} == {t.id: run_trial(t).digest for t in plan.trials}
    assert answer.other is None
    assert unload_results(answer.results, {}) == []  # nobody asked for them, or they came twice


def test_a_worker_of_another_kind_is_refused_or_marked(tree: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    plan = gradlab.plan(tree)
    other = {**take_fingerprint(), "processor": "abacus", "node": "attic"}
    cargo, tickets = pack([plan.trials[:1]])
    mixed, _ = pack([plan.trials[:1]], mixed=True)
    monkeypatch.setattr(remote, "take_fingerprint", lambda: other)
    answer = RemoteWorker(cargo).run(tickets[0], Monitor())
    assert answer.results.ids == []
    assert answer.refused is not None
    assert answer.refused.startswith("the worker on attic is refused, because the same trial may give different bits")
    assert "(processor was " in answer.refused
    accepted = RemoteWorker(mixed).run(tickets[0], Monitor())
    assert accepted.results.ids == [plan.trials[0].id]
    assert accepted.other == other


def test_another_gradlab_is_another_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    here = take_fingerprint()
    assert compare_fingerprints(here, take_fingerprint()) == []
    (difference,) = compare_fingerprints(here, {**here, fingerprint.SOURCE: "0" * 16})
    assert "with different source files" in difference


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
    cargo, tickets = pack([plan.trials[:1]])
    wanted = run_trial(plan.trials[0]).digest
    path.unlink()  # as on another machine
    answer = RemoteWorker(pickle.loads(pickle.dumps(cargo))).run(tickets[0], Monitor())
    (result,) = unload_results(answer.results, {plan.trials[0].id: plan.trials[0]})
    assert result.digest == wanted
    changed = type(cargo)(cargo.groups, tuple(type(p)(p.name, p.text, "0") for p in cargo.parts), cargo.fingerprint)
    with pytest.raises(PartError, match="put them into one file"):
        changed.trials(tickets[0])


def test_data_that_were_placed_are_not_read_from_their_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placed, "_placed", {})
    rng = np.random.default_rng(0)
    path = tmp_path / "some.npz"
    np.savez(path, x=rng.standard_normal((40, 3)), y=rng.integers(0, 2, 40))
    task = File(path=str(path))
    facts, arrays = task.facts(), {task.source(): task.read()}
    path.unlink()
    placed.place(arrays)
    assert task.facts() == facts
    assert File(path=str(path), test=0.5).source() == task.source()  # the same file, whatever becomes of its rows
    assert task.load(rng, rng).inputs.shape == (40, 3)


def test_bundles_follow_the_measured_time() -> None:
    packer: Packer[int] = Packer([[(0, n) for n in range(10)] for _ in range(100)], 0.5)
    assert len(packer.take(2)) == 10  # as planned
    for _ in range(10):
        packer.learn(0, 0.005)
    assert len(packer.take(2)) == 80  # eight times as many at most
    assert len(packer.take(2)) == 100  # 0.5 s of 5 ms
    for _ in range(1000):
        packer.learn(0, 0.25)
    assert len(packer.take(2)) == 2
    for _ in range(2000):
        packer.learn(0, 2.0)
    assert len(packer.take(2)) == 1  # a longer trial is a bundle by itself


def test_the_last_bundles_are_small_and_nothing_is_handed_out_twice() -> None:
    packer: Packer[int] = Packer([[(0, n) for n in range(100)]], 1e9)
    taken = []
    while len(packer):
        taken.append(packer.take(4))
    assert sorted(n for bundle in taken for _, n in bundle) == list(range(100))
    assert len(taken[-1]) == 1
    packer.put_back(taken[0], pieces=2)
    assert [len(packer.take(4)) for _ in range(2)] == [3, 3]


def test_the_last_bundles_of_short_trials_still_hold_a_fifth_of_a_second() -> None:
    packer: Packer[int] = Packer([[(group, group) for group in range(50)] for _ in range(20)], 0.5)
    packer.learn(0, 0.01)
    sizes = []
    while len(packer):
        sizes.append(len(packer.take(8)))
    assert sum(sizes) == 1000
    assert sizes[0] == 31  # a fair share of 1,000 for eight workers, four each
    assert set(sizes[-6:-1]) == {20}
    assert sizes[-1] <= 20


def test_a_group_without_a_measurement_is_taken_to_be_like_the_others() -> None:
    packer: Packer[int] = Packer([[(group, group) for group in range(1000)]], 0.5)
    packer.learn(1000, 0.004)
    packer.learn(1001, 0.006)
    assert len(packer.take(1)) == 100


def test_one_worker_compiles_while_the_others_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    monkeypatch.setenv("GRADLAB_CACHE", str(tmp_path))
    inside: list[int] = []
    most = 0

    def compile_something() -> None:
        nonlocal most
        with compiling.compiling_alone():
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


def test_kernels_are_looked_for_once_and_a_cold_trial_goes_first(
    tree: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    tree["base"]["train"]["engine"] = "reference"
    plan = gradlab.plan(tree, seeds=3)
    asked: list[str] = []
    order: list[str] = []

    def announce(self: Reference, config: Any, catalog: Any) -> str:
        asked.append("kernels")
        return "compiling"

    monkeypatch.setattr(Reference, "announcement", announce)
    monkeypatch.setattr(remote, "compiling_alone", lambda: contextmanager(note)())
    run = remote.run_bundle
    monkeypatch.setattr(
        remote, "run_bundle", lambda trials, monitor: order.append(str(len(trials))) or run(trials, monitor)
    )

    def note() -> Iterator[None]:
        order.append("locked")
        yield
        order.append("free")

    cargo, tickets = pack([plan.trials[:3], plan.trials[3:]])
    worker = RemoteWorker(cargo)
    found = [identity for own in tickets for identity in worker.run(own, Monitor()).results.ids]
    assert sorted(found) == sorted(trial.id for trial in plan.trials)
    assert asked == ["kernels"]
    assert order == ["locked", "1", "free", "2", "3"]
