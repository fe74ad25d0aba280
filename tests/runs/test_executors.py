"""Executors: bundles, Ctrl-C, overhead."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import gradlab
from gradlab.errors import PartError
from gradlab.plans import plan as planning
from gradlab.runs.executors.base import bundle_trials, default_executor
from gradlab.runs.executors.processes import Processes
from gradlab.runs.worker import Monitor, run_bundle, run_trial
from gradlab.spec.yaml_text import dump


def test_small_trials_share_a_bundle_and_long_ones_have_their_own(tree: dict[str, Any]) -> None:
    plan = gradlab.plan(tree, seeds=500)
    bundles = bundle_trials(plan, plan.trials, 2)
    assert [trial for bundle in bundles for trial in bundle] == list(plan.trials)
    assert 16 <= len(bundles) <= 200
    long = gradlab.plan("identity", overrides={"train.steps": 100_000})
    assert {len(bundle) for bundle in bundle_trials(long, long.trials, 2)} == {1}
    assert bundle_trials(plan, (), 2) == []
    few = bundle_trials(plan, plan.trials[:10], 4)
    assert len(few) == 10  # no core waits while another holds all the work


def test_many_short_trials_use_processes_and_few_or_long_ones_threads(tree: dict[str, Any]) -> None:
    short = gradlab.plan(tree)
    assert default_executor(short, 20_000, 2) == "processes"
    assert default_executor(short, 200, 2) == "pool"
    assert default_executor(short, 20_000, 1) == "pool"
    assert default_executor(gradlab.plan("identity"), 20_000, 2) == "pool"


def test_a_bundle_and_its_results_can_be_pickled(tree: dict[str, Any]) -> None:
    """A Ray executor needs this."""
    bundle = gradlab.plan(tree).trials[:2]
    sent = pickle.loads(pickle.dumps(bundle))
    back = pickle.loads(pickle.dumps(run_bundle(sent, Monitor())))
    assert [result.digest for result in back] == [run_trial(trial).digest for trial in bundle]


def test_results_keep_their_trial_if_networks_train_side_by_side() -> None:
    """Trials that share vector lanes are trained out of the bundle's order, whatever else is in the bundle."""
    tree = {
        "question": "?",
        "base": {
            "data": {"task": "identity", "dim": 2, "samples": 16},
            "model": {"depth": 1, "width": 4, "activation": "tanh"},
            "train": {"loss": "mse", "optimizer": "sgd", "lr": 0.1, "batch": "full", "steps": 5},
        },
        "axes": {"model.width": [4, 40]},
        "seeds": 4,
    }
    plan = gradlab.plan(tree)
    one = {result.trial.id: result.digest for result in run_bundle(plan.trials, Monitor())}
    assert [trial.id for trial in plan.trials] != list(one)
    own = {trial.id: run_trial(trial).digest for trial in plan.trials}
    assert one == own
    (results,) = Processes(workers=1).run([plan.trials], Monitor())
    assert {result.trial.id: result.digest for result in results} == own


def test_an_unknown_executor_is_refused_by_name(tree: dict[str, Any]) -> None:
    with pytest.raises(PartError, match=r"did you mean 'pool'\? Accepted: inline, pool, processes, ray, slurm"):
        gradlab.run(tree, executor="pol")


def test_no_more_trials_at_a_time_than_memory_allows(tree: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    plan = gradlab.plan(tree)
    monkeypatch.setattr(planning, "available_bytes", lambda: 3 * plan.bytes)
    assert planning.limit_workers(plan, 16) == 3
    assert planning.limit_workers(plan, 2) == 2
    monkeypatch.setattr(planning, "available_bytes", lambda: 0)
    assert planning.limit_workers(plan, 16) == 16


def test_a_stopped_run_leaves_no_thread_behind(tree: dict[str, Any]) -> None:
    result = gradlab.run(tree, seeds=50, workers=2, on_results=once(interrupt))
    assert result.stopped
    assert result.unfinished
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("gradlab")]
    assert 0 < len(result.trials()) < 100


def once(action: Any) -> Any:
    """Return a callback that acts only on the first results: a second signal would end this process."""
    calls = iter([action])
    return lambda results: next(calls, lambda: None)()


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.01)  # the handler runs in this thread, between two of its instructions


def test_the_first_ctrl_c_stops_in_order_and_restores_the_signal_handlers(tree: dict[str, Any], tmp_path: Path) -> None:
    """Promise 8."""
    calls: list[str] = []
    before = signal.getsignal(signal.SIGINT)
    result = gradlab.run(
        tree,
        seeds=20,
        out=tmp_path / "run",
        executor="inline",
        on_results=once(interrupt),
        on_stop=lambda: calls.append("stop"),
    )
    assert calls == ["stop"]
    assert signal.getsignal(signal.SIGINT) is before
    assert result.stopped
    assert result.unfinished
    assert "Unfinished" in (tmp_path / "run/report.md").read_text()
    state = gradlab.status(tmp_path / "run")
    assert (state.alive, state.running, state.done) == (False, (), len(result.trials()))
    assert gradlab.run(tree, seeds=20, out=tmp_path / "run").measured.hash == gradlab.run(tree, seeds=20).measured.hash


SLEEPY = """
import time
import numpy as np
from gradlab.network import Activation


class Sleepy(Activation):
    "f(x) = x, on a training batch after an hour."

    name = "sleepy"

    def forward(self, x):
        if len(x) == 8:
            time.sleep(3600)
        return x

    def slope(self, x, y):
        return np.ones_like(x)
"""


@pytest.mark.parametrize(
    "executor", [*(pytest.param(name, marks=pytest.mark.shipped) for name in ("inline", "processes")), "pool"]
)
def test_a_second_ctrl_c_stops_at_once(executor: str, tree: dict[str, Any], tmp_path: Path) -> None:
    """Promise 8. One long trial never ticks, so the first Ctrl-C waits for it; the second does not."""
    (tmp_path / "sleepy.py").write_text(SLEEPY)
    tree["base"]["model"]["activation"] = "sleepy"
    (tmp_path / "long.yaml").write_text(dump({**tree, "parts": ["sleepy.py"]}))
    process = subprocess.Popen(
        [sys.executable, "-m", "gradlab", "run", "long.yaml", "--executor", executor],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # some parents ignore it
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 60
        while not (tmp_path / "runs/long/progress.json").is_file():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(2.0 if executor == "processes" else 0.5)
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)  # far less than the trial takes, and no worker holds the pipe
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 130, error
    assert "press Ctrl-C again to stop at once" in error
    assert "Traceback" not in error
    state = gradlab.status(tmp_path / "runs/long")
    assert (state.alive, state.running) == (False, ())


def test_sigterm_stops_in_order_like_ctrl_c(tree: dict[str, Any], tmp_path: Path) -> None:
    result = gradlab.run(tree, seeds=50, on_results=once(lambda: os.kill(os.getpid(), signal.SIGTERM)))
    assert result.stopped
    assert result.unfinished
    assert len(result.trials()) >= 1


def test_progress_counts_finished_trials_and_estimates_the_time_left(tree: dict[str, Any]) -> None:
    looks: list[Any] = []
    tallies: list[Any] = []
    gradlab.run(
        tree, seeds=20, on_start=tallies.append, on_results=lambda rs: looks.append(tallies[0].snapshot()), workers=2
    )
    assert [look["done"] for look in looks] == sorted(look["done"] for look in looks)
    last = tallies[0].snapshot()
    assert (last["done"], last["planned"], last["failed"], last["running"]) == (40, 40, 0, [])
    assert last["per_second"] > 0
    assert tallies[0].share == 1.0
    assert last["seconds_left"] == 0
    assert any(look["running"] for look in looks)


@pytest.mark.slow
def test_a_pool_does_not_keep_results_that_were_consumed(tree: dict[str, Any]) -> None:
    import gc
    import weakref

    from gradlab.runs.executors.pool import Pool

    plan = gradlab.plan(tree, seeds=15)
    seen: list[Any] = []
    alive: list[int] = []
    for results in Pool(workers=2).run([(trial,) for trial in plan.trials], Monitor()):
        seen += [weakref.ref(result) for result in results]
        del results
        gc.collect()
        alive.append(sum(ref() is not None for ref in seen))
    assert len(seen) == 30
    assert max(alive) < 15


@pytest.mark.parametrize(
    ("executor", "number"),
    [
        ("pool", signal.SIGTERM),
        pytest.param("processes", signal.SIGINT, marks=pytest.mark.slow),
        pytest.param("pool", signal.SIGINT, marks=pytest.mark.slow),
        pytest.param("processes", signal.SIGTERM, marks=pytest.mark.slow),
    ],
)
def test_a_signal_to_all_processes_at_any_moment_ends_in_a_report(
    executor: str, number: signal.Signals, tree: dict[str, Any], tmp_path: Path
) -> None:
    """A terminal sends Ctrl-C to the whole group of processes, including workers that are still starting."""
    tree["base"]["train"] |= {"engine": "reference", "steps": 400}
    (tmp_path / "long.yaml").write_text(dump({**tree, "seeds": 2000, "figures": []}))
    for pause in (0.1, 1.2) if number == signal.SIGTERM else (0.1,):
        process = subprocess.Popen(
            [sys.executable, "-m", "gradlab", "run", "long.yaml", "--executor", executor],
            cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip
        try:
            deadline = time.monotonic() + 60
            while not (tmp_path / "runs/long/progress.json").is_file():
                assert time.monotonic() < deadline
                time.sleep(0.01)
            time.sleep(pause)
            os.killpg(process.pid, number)
            _, error = process.communicate(timeout=60)
        finally:
            process.kill()
            process.communicate()
        assert process.returncode == 130, error
        assert "Traceback" not in error
        assert "Unfinished" in (tmp_path / "runs/long/report.md").read_text()
        (tmp_path / "runs/long/report.md").unlink()


def test_workers_below_one_are_refused(tree: dict[str, Any]) -> None:
    from gradlab.errors import StudyError

    with pytest.raises(StudyError, match="workers: at least 1, not 0"):
        gradlab.run(tree, workers=0)


def test_a_part_that_exits_is_a_failed_trial(tree: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "sleepy.py").write_text(SLEEPY.replace("time.sleep(3600)", "raise SystemExit(3)"))
    tree["base"]["model"]["activation"] = "sleepy"
    result = gradlab.run({**tree, "parts": [str(tmp_path / "sleepy.py")]})
    assert result.measured.errors() == {"SystemExit: 3": 4}


OWN_EXECUTOR = """
from gradlab.runs.executors.base import Executor
from gradlab.runs.worker import run_bundle
from pathlib import Path

class Noted(Executor):
    'Inline, and leaves a note.'
    name = "noted"
    def run(self, bundles, monitor):
        for bundle in bundles:
            with open("noted.txt", "a") as file:
                file.write(f"{len(bundle)}\\n")
            yield run_bundle(bundle, monitor)
"""


def test_a_user_executor_is_selected_by_name(tree: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN_EXECUTOR)
    (tmp_path / "study.yaml").write_text(dump({**tree, "figures": [], "parts": ["./mine.py"]}))
    command = [sys.executable, "-m", "gradlab", "run", "study.yaml", "--executor", "noted"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert sum(map(int, (tmp_path / "noted.txt").read_text().split())) == 4
    wrong = subprocess.run([*command[:-1], "note"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert wrong.returncode == 2
    assert "did you mean 'noted'?" in wrong.stderr
