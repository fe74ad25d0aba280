"""The benchmark command: its measurements, and its notes on missing peers. Ratios are not asserted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gradlab.bench.systems import GRADLAB, PEERS, torch_network
from gradlab.bench.workloads import TINY, WORKLOADS, sweep_tree
from gradlab.engines.reference import Reference


def bench(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gradlab", "bench", *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300)


@pytest.mark.shipped
def test_bench_prints_json_and_writes_table_and_chart(tmp_path: Path) -> None:
    words = ("--workloads", "C", "--rounds", "1", "--peers", "sklearn", "--json", "--out", "here")
    found = bench(*words, cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    report = json.loads(found.stdout)
    (row,) = report["workloads"]
    assert row["systems"]["gradlab"]["best"]["gflops"] > 0
    assert report["sgemm_gflops"] > 0
    assert 0 < row["share_of_peak"] < 2
    assert {variant["variant"] for variant in row["systems"]["gradlab"]["variants"]} == {
        "fused",
        "fused, dense",
        "fused, BLAS",
        "reference",
    }
    assert report["probes"] is None  # probes are timed on workload B
    text = (tmp_path / "here/bench.txt").read_text()
    for peer, version in report["peers"].items():
        assert f"{peer} {version or 'not installed'}" in text
    assert (tmp_path / "here/bench.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("words", [("--peers", "tensorflow"), ("--workloads", "Z")])
def test_unknown_peers_and_workloads_are_refused(words: tuple[str, ...], tmp_path: Path) -> None:
    found = bench(*words, cwd=tmp_path)
    assert found.returncode == 2
    assert words[1][0] in found.stderr
    assert "Traceback" not in found.stderr


@pytest.mark.parametrize("key", ["B", "C"])
def test_torch_trains_the_same_network_on_the_same_batches(key: str) -> None:
    import torch

    setup = WORKLOADS[key].setup()
    net = torch_network(setup)
    x, _ = setup.dataset.gather(setup.order(0)[: setup.batch], np.float32)
    theirs = net(torch.tensor(x)).detach().numpy()
    p = setup.mlp.layout.windows(setup.theta)
    np.testing.assert_allclose(
        setup.mlp.forward(p, x, setup.mlp.initial_running(np.float32))[0], theirs, rtol=2e-3, atol=1e-4
    )


def test_tiny_nets_learn_and_differ_by_learning_rate() -> None:
    setup = TINY.setup()
    assert GRADLAB.tiny(setup, np.array([0.01, 0.1])) > 0
    assert Reference().train(setup).metrics["final_loss"] < 0.2


def test_the_sweep_has_sixty_four_architectures() -> None:
    import gradlab

    groups = gradlab.load(sweep_tree()).groups
    assert len(groups) == 64
    assert len({(g.config.model.depth, g.config.model.width) for g in groups}) == 64


def test_a_peer_that_is_missing_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    assert PEERS["jax"].version() is None
