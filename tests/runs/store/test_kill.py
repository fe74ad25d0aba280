"""Promise 4: a committed trial survives kill -9: nothing lost, duplicated or unreadable; and the same hash."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from small_study import study

import gradlab
from gradlab.runs.store.records import Chunk, chunk_paths

CODE = """
import json, sys
import gradlab, gradlab.runs.coordinator as coordinator
coordinator.COMMIT_SECONDS = 0.02
gradlab.run(json.load(open(sys.argv[1])), out=sys.argv[2], executor=sys.argv[3], workers=2)
"""

SELF_KILL = """
import os, pathlib, sys, threading, time
def end():
    run, before, pause = pathlib.Path(sys.argv[2]), int(sys.argv[4]), float(sys.argv[5])
    while len(list(run.glob("results/*/chunk.json"))) <= before:
        time.sleep(0.002)
    time.sleep(pause)
    os.kill(os.getpid(), 9)
threading.Thread(target=end, daemon=True).start()
"""


def long_study(tree: dict[str, Any], seeds: int, steps: int) -> dict[str, Any]:
    """Trials of some milliseconds on the reference engine, which needs no compiler to start."""
    tree["base"]["train"] |= {"engine": "reference", "steps": steps}
    return {**tree, "seeds": seeds, "figures": [], "measure": {"layers": ["end"]}}


def committed(run: Path) -> list[str]:
    """Return the ids of all committed trials, after checking every chunk."""
    found: list[str] = []
    for path in chunk_paths(run):
        chunk = Chunk.open(path)
        chunk.verify()
        found += chunk.table("trials")["trial"].to_pylist()
        assert set(chunk.table("curves")["trial"].to_pylist()) == set(chunk.table("trials")["trial"].to_pylist())
    return found


def killed_again_and_again(tree: dict[str, Any], folder: Path, kills: int, seed: int) -> None:
    (folder / "study.json").write_text(json.dumps(tree))
    run, chance, before = folder / "run", random.Random(seed), set()
    arguments = [str(folder / "study.json"), str(run), "pool"]
    done_by_itself = in_between = 0
    for _ in range(kills):
        if chance.random() < 0.8:  # once it writes, from inside, so that a busy machine does not come too late
            pause = chance.random() * chance.random() * 0.5
            command = [sys.executable, "-c", SELF_KILL + CODE, *arguments, str(len(chunk_paths(run))), str(pause)]
            process = subprocess.Popen(command, stderr=subprocess.PIPE)
        else:  # at any point of its first seconds
            process = subprocess.Popen([sys.executable, "-c", CODE, *arguments], stderr=subprocess.PIPE)
            time.sleep(chance.random() * chance.random() * 2)
            process.send_signal(signal.SIGKILL)
        _, error = process.communicate()
        assert process.returncode in (0, -signal.SIGKILL), error.decode()
        done_by_itself += process.returncode == 0
        now = committed(run)
        assert len(now) == len(set(now)), "a trial is there twice"
        assert before <= set(now), "a committed trial is gone"
        before = set(now)
        in_between += 0 < len(now) < 2 * tree["seeds"]
        if (run / "plan.json").exists():
            state = gradlab.status(run)
            assert (state.alive, state.running, state.damaged) == (False, (), ())
            assert state.done == len(now)
            assert state.left == state.planned - len(now)
        if done_by_itself:
            break
    assert in_between >= kills // 4, "the kills did not hit runs that were under way"
    result = gradlab.run(tree, out=run)
    assert result.measured.hash == gradlab.run(tree).measured.hash
    assert not (run / ".writing").exists()
    assert len(committed(run)) == 2 * tree["seeds"]


def test_two_kills_lose_nothing(tree: dict[str, Any], tmp_path: Path) -> None:
    killed_again_and_again(long_study(tree, 60, 60), tmp_path, 2, seed=int(os.environ.get("GRADLAB_TEST_SEED", "1")))


@pytest.mark.shipped
def test_five_kills_of_a_run_until_settled_end_in_the_same_seeds_verdicts_and_bits(tmp_path: Path) -> None:
    claim = {"text": "t", "metric": "initial_loss", "arms": ["plain", "residual"], "op": "<", "matters": 1e-6}
    until = {"from": 5, "to": 60, "until": "settled"}
    tree = study(
        {"train.epochs": 1, "train.engine": "reference"}, claims=[{**claim, "budget": "any"}], seeds=until, seed=3
    )
    whole = gradlab.run(tree)
    assert len(whole.measured.plan.trials) > 20
    run = tmp_path / "run"
    (tmp_path / "study.json").write_text(json.dumps(tree))
    ends = []
    for _ in range(5):
        arguments = [str(tmp_path / "study.json"), str(run), "pool", str(len(chunk_paths(run))), "0"]
        killed = subprocess.run([sys.executable, "-c", SELF_KILL + CODE, *arguments], capture_output=True)
        ends.append(killed.returncode)
    assert set(ends) <= {0, -signal.SIGKILL}
    assert ends.count(-signal.SIGKILL) > 2
    result = gradlab.run(tree, out=run)
    assert result.measured.hash == whole.measured.hash
    assert [trial.id for trial in result.measured.plan.trials] == [trial.id for trial in whole.measured.plan.trials]
    assert [verdict.to_json() for verdict in result.verdicts] == [verdict.to_json() for verdict in whole.verdicts]
    assert sorted(committed(run)) == sorted(trial.id for trial in whole.measured.plan.trials)


@pytest.mark.slow
def test_two_hundred_kills_lose_nothing(tree: dict[str, Any], tmp_path: Path) -> None:
    killed_again_and_again(long_study(tree, 2500, 150), tmp_path, 200, seed=2)


@pytest.mark.shipped
def test_same_hash_inline_pool_processes_and_killed_three_times(tree: dict[str, Any], tmp_path: Path) -> None:
    """Promise 3."""
    tree = long_study(tree, 30, 60)
    hashes = {gradlab.run(tree, executor="inline").measured.hash}
    hashes |= {gradlab.run(tree, workers=workers).measured.hash for workers in (1, 2, 4)}
    hashes |= {gradlab.run(tree, executor="processes", workers=2).measured.hash}
    for killed in range(3):
        command = [sys.executable, "-c", CODE, str(tmp_path / "study.json"), str(tmp_path / "run"), "pool"]
        (tmp_path / "study.json").write_text(json.dumps(tree))
        process = subprocess.Popen(command)
        while process.poll() is None and len(chunk_paths(tmp_path / "run")) <= killed:
            time.sleep(0.002)
        process.kill()
        process.wait()
    hashes |= {gradlab.run(tree, out=tmp_path / "run").measured.hash}
    assert len(hashes) == 1
