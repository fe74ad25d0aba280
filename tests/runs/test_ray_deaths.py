"""Deaths on a Ray cluster: nodes are killed as a power cut would kill them, workers, the driver; nothing is lost."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import gradlab
from gradlab.errors import EnvironmentFault
from gradlab.runs.executors import ray as executors
from gradlab.runs.store.records import chunk_paths
from gradlab.trials.outcome import TrialResult

pytest.importorskip("ray", reason="needs the extra: pip install 'gradlab[ray]'")

from commands import ENVIRONMENT
from long_study import committed_trials, long_tree
from ray_cluster import Nodes, ray_cluster, run_on


@pytest.mark.clusters
def test_of_two_nodes_one_is_killed_and_no_trial_is_lost_or_doubled(tmp_path: Path) -> None:
    study = long_tree(seeds=40, steps=200)
    with ray_cluster(nodes=2) as cluster:

        def kill_one(results: Sequence[TrialResult]) -> None:
            if len(cluster.nodes) == 2:
                cluster.kill(cluster.nodes[0])

        found = run_on(cluster, study, out=tmp_path / "run", on_results=kill_one)
        assert len(cluster.nodes) == 1
    rows = committed_trials(tmp_path / "run")
    assert len(rows) == len(set(rows)) == 80
    assert found.measured.hash == gradlab.run(study, executor="inline").measured.hash


def losing(times: int, folder: Path) -> Any:
    """A task that, so many times, does not get at the object store; each is a file in the folder."""

    def run(stored: Any, board: Any, batch: Any) -> Any:
        import ray

        from gradlab.runs.executors.ray import run_in_ray

        lost = len(list(folder.iterdir()))
        if lost < times:
            (folder / str(lost)).touch()
            raise ray.exceptions.ObjectLostError("00", b"", "")
        return run_in_ray(stored, board, batch)

    return run


@pytest.mark.clusters
def test_a_bundle_whose_worker_cannot_fetch_the_study_is_handed_out_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = long_tree(seeds=5, steps=50)
    (tmp_path / "lost").mkdir()
    (tmp_path / "always").mkdir()
    with ray_cluster(nodes=1) as cluster:
        monkeypatch.setattr(executors, "run_in_ray", losing(3, tmp_path / "lost"))
        found = run_on(cluster, study)
        assert len(list((tmp_path / "lost").iterdir())) == 3
        assert found.measured.hash == gradlab.run(study, executor="inline").measured.hash
        monkeypatch.setattr(executors, "run_in_ray", losing(10_000, tmp_path / "always"))
        monkeypatch.setattr(executors, "MOST_LOSSES", 4)
        with pytest.raises(EnvironmentFault, match="cannot fetch the study"):
            run_on(cluster, study)


DEADLY = """
import os, signal
from gradlab.parts import Activation

class Deadly(Activation):
    '''Ends its process, as the kernel does when memory runs out.'''

    name = "deadly"

    def forward(self, x):
        os.kill(os.getpid(), signal.SIGKILL)

    def slope(self, x, y):
        return y
"""


@pytest.mark.clusters
def test_a_trial_whose_worker_is_killed_for_its_memory_fails_and_the_others_go_on(tmp_path: Path) -> None:
    (tmp_path / "deadly.py").write_text(dedent(DEADLY))
    tree = long_tree(seeds=3, steps=50)
    tree |= {"parts": [str(tmp_path / "deadly.py")], "factor": "model.activation"}
    tree["arms"] = {"calm": {}, "deadly": {"model.activation": "deadly"}}
    with ray_cluster(nodes=1, cpus=2) as cluster:
        found = run_on(cluster, tree)
    assert found.measured.counts("calm") == {"done": 3, "failed": 0, "diverged": 0}
    assert found.measured.counts("deadly") == {"done": 0, "failed": 3, "diverged": 0}
    (error,) = found.measured.errors()
    assert error.startswith("its worker process died 3 times")


@pytest.mark.clusters
def test_a_driver_that_is_killed_is_started_again_and_loses_nothing(tmp_path: Path) -> None:
    study = long_tree(seeds=150, steps=300)
    (tmp_path / "study.yaml").write_text(json.dumps(study))
    run = tmp_path / "runs" / "study"
    with ray_cluster(nodes=1, cpus=2) as cluster:
        words = ["run", "study.yaml", "--executor", "ray", "--address", cluster.address, "--json"]
        command = [sys.executable, "-m", "gradlab", *words]
        driver = subprocess.Popen(command, cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.DEVNULL)
        while driver.poll() is None and not chunk_paths(run):
            time.sleep(0.05)
        driver.send_signal(signal.SIGKILL)
        driver.wait()
        before = committed_trials(run)
        assert 0 < len(before) < 300
        again = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=120)
        assert again.returncode == 0, again.stderr
    rows = committed_trials(run)
    assert len(rows) == len(set(rows)) == 300
    assert set(before) <= set(rows)
    assert gradlab.open_run(run).measured.hash == gradlab.run(study, executor="pool").measured.hash


@pytest.mark.clusters
def test_the_first_ctrl_c_drains_and_the_same_command_resumes(tmp_path: Path) -> None:
    study = long_tree(seeds=150, steps=300)
    (tmp_path / "study.yaml").write_text(json.dumps(study))
    run = tmp_path / "runs" / "study"
    with ray_cluster(nodes=1) as cluster:
        words = ["run", "study.yaml", "--executor", "ray", "--address", cluster.address]
        command = [sys.executable, "-m", "gradlab", *words]
        driver = subprocess.Popen(command, cwd=tmp_path, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
        while driver.poll() is None and not chunk_paths(run):
            time.sleep(0.05)
        driver.send_signal(signal.SIGINT)
        _, said = driver.communicate(timeout=60)
        assert driver.returncode == 130
        assert "Traceback" not in said
        assert 0 < len(committed_trials(run)) < 300
        again = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=120)
        assert again.returncode == 0, again.stderr
    assert gradlab.open_run(run).measured.hash == gradlab.run(study, executor="pool").measured.hash


@pytest.mark.slow
def test_twenty_nodes_are_killed_at_random_and_no_trial_is_lost_or_doubled(tmp_path: Path) -> None:
    """A thread kills at any moment, whatever the run is doing; results wait if they would be ahead of the kills."""
    study, trials, wanted = long_tree(seeds=1000, steps=300), 2000, 20
    chance, kills, ended = random.Random(20), [], threading.Event()
    done = 0

    def kill_at_random(cluster: Nodes) -> None:
        while len(kills) < wanted and not ended.wait(1.5 * chance.random()):
            if len(cluster.nodes) > 1:  # one is left, so that there is progress
                node = chance.choice(cluster.nodes)
                cluster.kill(node)
                kills.append(node)

    def keep_three(results: Sequence[TrialResult]) -> None:
        nonlocal done
        done += len(results)
        while True:
            while len(cluster.nodes) < 3:
                cluster.add()
            if len(kills) == wanted or done <= trials * (len(kills) + 1) // (wanted + 1):
                return
            time.sleep(0.02)

    with ray_cluster(nodes=3) as cluster:
        killer = threading.Thread(target=kill_at_random, args=(cluster,), daemon=True)
        killer.start()
        try:
            found = run_on(cluster, study, out=tmp_path / "run", on_results=keep_three)
        finally:
            ended.set()
            killer.join()
    assert len(kills) == wanted
    rows = committed_trials(tmp_path / "run")
    assert len(rows) == len(set(rows)) == trials
    assert found.measured.counts()["failed"] == 0
    assert found.measured.hash == gradlab.run(study, executor="processes", workers=2).measured.hash
