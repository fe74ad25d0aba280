"""The Ray executor on real clusters: several nodes on this machine, reports, fingerprints, the same bits."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from math import isfinite
from pathlib import Path
from typing import Any

import pytest

import gradlab
from gradlab.errors import EnvironmentFault, InvalidInput
from gradlab.runs.coordinator import Tally
from gradlab.runs.executors import base as executors
from gradlab.runs.executors import ray as ray_executor
from gradlab.runs.executors.ray import MOST_REPORTS, REPORT_SECONDS, Board

pytest.importorskip("ray", reason="needs the extra: pip install 'gradlab[ray]'")

from commands import ENVIRONMENT
from long_study import long_tree
from ray_cluster import ray_cluster, run_on

OTHER = {"MKL_CBWR": "COMPATIBLE"}
"""A variable that chooses other instructions: to the fingerprint such a node is of another kind."""


def test_without_the_package_the_option_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "find_spec", lambda module: None)
    with pytest.raises(InvalidInput, match=r"pip install 'gradlab\[ray\]'"):
        gradlab.run(long_tree(1, 10), executor="ray")
    with pytest.raises(InvalidInput, match=r"pip install 'gradlab\[slurm\]'"):
        gradlab.run(long_tree(1, 10), executor="slurm", settings={"mode": "local"})


def test_workers_of_a_large_cluster_report_less_often_and_all_learn_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    board = Board()
    assert board.report("w", (("trial", 5, 0.5, 1.0),)) == REPORT_SECONDS
    pauses = [board.report(f"w{number}", ()) for number in range(1000)]
    assert pauses[-1] == pytest.approx(1001 / MOST_REPORTS)
    assert board.read() == [("trial", 5, 0.5, 1.0)]
    later = time.monotonic() + 1000
    monkeypatch.setattr(ray_executor, "monotonic", lambda: later)
    assert board.read() == []  # nobody has reported for long
    board.stop()
    assert board.report("w", ()) is None


def test_a_cluster_that_does_not_answer_is_named_at_once() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(
            EnvironmentFault, match=f"the Ray cluster at {address} cannot be reached: Connection refused"
        ):
            gradlab.run(long_tree(1, 10), executor="ray", settings={"address": address})


@pytest.mark.clusters
@pytest.mark.parametrize("mode", ["disabled", "token"])
def test_a_cluster_of_this_machine_is_shown_the_token_that_it_asks_for(mode: str, tmp_path: Path) -> None:
    """`ray start` asks for a token where the user has one, and Ray sends none to an address that was given."""
    ray = Path(sys.executable).with_name("ray")
    own = {**ENVIRONMENT, "HOME": str(tmp_path), "RAY_USAGE_STATS_ENABLED": "0"}
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("0123456789abcdef" * 4)
    (tmp_path / "study.yaml").write_text(json.dumps(long_tree(2, 20)))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    start = [ray, "start", "--head", f"--port={port}", "--include-dashboard=false", "--num-cpus=1", "--block"]
    with subprocess.Popen(
        start, env={**own, "RAY_AUTH_MODE": mode}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as head:
        try:
            words = ["run", "study.yaml", "--executor", "ray", "--address", f"127.0.0.1:{port}"]
            for _ in range(5):  # until it listens
                done = subprocess.run(
                    [sys.executable, "-m", "gradlab", *words], cwd=tmp_path, env=own, capture_output=True, text=True
                )
                if "refused" not in done.stderr:
                    break
                time.sleep(2)
        finally:
            head.terminate()
    assert done.returncode == 0, done.stderr
    assert gradlab.status(tmp_path / "runs" / "study").finished


@pytest.mark.clusters
def test_progress_and_losses_come_back_while_trials_train() -> None:
    seen: list[dict[str, Any]] = []
    ended = threading.Event()

    def look(tally: Tally) -> None:
        while not ended.wait(0.1) and not seen:
            seen.extend(line for line in tally.snapshot()["running"] if line["steps"] and line["loss"] is not None)

    with ray_cluster(nodes=1) as cluster:
        study = long_tree(seeds=1, steps=150_000)  # ten seconds and more each
        run_on(cluster, study, on_start=lambda tally: threading.Thread(target=look, args=(tally,), daemon=True).start())
        ended.set()
    assert 0 < seen[0]["steps"] <= seen[0]["of"] == 150_000
    assert isfinite(seen[0]["loss"])


@pytest.mark.clusters
@pytest.mark.parametrize("nodes", [1, 2, 4])
def test_the_number_of_nodes_changes_no_bit(nodes: int) -> None:
    study = gradlab.plan(long_tree(seeds=10, steps=100))
    with ray_cluster(nodes) as cluster:
        found = run_on(cluster, study).measured.hash
    for executor in ("inline", "pool", "processes"):
        assert gradlab.run(study, executor=executor, workers=2).measured.hash == found


@pytest.mark.clusters
def test_compiled_kernels_and_stored_images_give_the_same_bits() -> None:
    """On Ray the images lie once in the object store, and the fused engine is compiled by one worker of a node."""
    tree = {
        "question": "?",
        "base": {
            "data": {"task": "mnist", "train": 500, "validation": 100, "test": 100},
            "model": {"depth": 2, "width": 16},
            "train": {"loss": "cross_entropy", "optimizer": "adam", "lr": 0.01, "batch": 50, "epochs": 1},
        },
        "axes": {"train.lr": [0.001, 0.01]},
        "seeds": 3,
        "figures": [],
    }
    with ray_cluster(nodes=1, cpus=2) as cluster:
        assert run_on(cluster, tree).measured.hash == gradlab.run(tree, executor="inline").measured.hash


@pytest.mark.clusters
def test_a_node_of_another_kind_is_refused_and_the_others_do_the_work(capsys: pytest.CaptureFixture[str]) -> None:
    study = long_tree(seeds=100, steps=100)
    with ray_cluster(nodes=1) as cluster:
        cluster.add(1, **OTHER)
        cluster.wait()
        found = run_on(cluster, study)
        assert not found.unfinished
        assert "notes" not in found.environment
        said = capsys.readouterr().err
        assert said.count("is refused, because the same trial may give different bits there (settings was") == 1
        assert "--mixed accepts such workers" in said
    assert found.measured.hash == gradlab.run(study, executor="inline").measured.hash


@pytest.mark.clusters
def test_a_cluster_of_another_kind_is_refused_or_marked_as_mixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = long_tree(seeds=2, steps=50)
    with ray_cluster(nodes=0) as cluster:
        cluster.add(1, **OTHER)
        with pytest.raises(EnvironmentFault, match="no machine in the cluster matches the one that started the run"):
            run_on(cluster, study, out=tmp_path / "run")
        monkeypatch.setenv("RAY_ADDRESS", cluster.address)  # as inside a Ray job: no address is needed
        with pytest.raises(EnvironmentFault, match="no machine in the cluster matches the one that started the run"):
            gradlab.run(study, executor="ray")
        found = run_on(cluster, study, out=tmp_path / "run", mixed=True)
    assert not found.unfinished
    for result in (found, gradlab.open_run(tmp_path / "run")):
        assert "Trials of different environments are mixed" in result.report()
        assert "COMPATIBLE" in result.report()
