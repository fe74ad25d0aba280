"""The model of how long a run takes: limits that can be computed by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import gradlab as command

from gradlab.runs.executors.base import Costs, forecast

FREE = Costs(trial=0.0)


def test_without_costs_the_time_is_the_work_over_the_cores() -> None:
    found = forecast(8000, 0.1, 8, FREE, 0.5)
    assert found.seconds == pytest.approx(100, rel=0.02)
    assert found.efficiency == pytest.approx(1, rel=0.02)
    assert found.limit == "cores"
    assert found.trials_per_bundle == 5


def test_the_coordinator_limits_trials_per_second() -> None:
    found = forecast(100_000, 0.005, 1000, Costs(trial=1e-3), 0.5)
    assert found.seconds == pytest.approx(100, rel=0.05)  # a thousand a second, whatever the cores
    assert found.limit == "coordinator"


def test_a_short_run_is_all_start_up() -> None:
    found = forecast(10, 0.1, 10, Costs(start=20.0), 0.5)
    assert found.seconds > 20
    assert found.limit == "start-up"


def test_more_cores_are_never_slower_and_nothing_takes_no_time() -> None:
    times = [forecast(20_000, 0.05, cores, Costs(1.0, 1e-3, 1e-3), 0.5).seconds for cores in (1, 2, 8, 64, 512)]
    assert times == sorted(times, reverse=True)
    assert forecast(0, 1.0, 4, FREE, 0.5).seconds == 0


def test_a_dry_run_says_bundles_memory_and_time(tmp_path: Path) -> None:
    words = ("run", "identity", "--dry-run", "--executor", "slurm", "--set-executor", "jobs=2,cpus=4")
    shown = command(*words, cwd=tmp_path)
    assert shown.returncode == 0
    assert "slurm: 20 bundles of up to 1 trial, 8 at a time\nmemory: " in shown.stdout
    assert "on a machine with 4 workers" in shown.stdout
    assert "expected time on 8 cores" in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 80
    assert "(a model: " in shown.stdout
    found = json.loads(command(*words, "--json", cwd=tmp_path).stdout)["expected"]
    assert (found["cores"], found["workers_per_machine"], found["bundles"]) == (8, 4, 20)
    assert found["bytes_per_machine"] == 4 * found["bytes_per_worker"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--address", "x:1"), "--address needs --executor"),
        (("--executor", "ray", "--set-executor", "fast"), "write NAME=VALUE"),
        (("--executor", "rey"), "did you mean 'ray'"),
        (("--executor", "ray", "--set-executor", "adress=x"), "did you mean 'address'"),
    ],
)
def test_wrong_options_are_refused_in_a_sentence(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = command("run", "identity", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_on_one_machine_the_coordinator_takes_its_time_from_the_workers() -> None:
    alone = forecast(10_000, 0.01, 2, Costs(trial=1e-3), 0.5)
    together = forecast(10_000, 0.01, 2, Costs(trial=1e-3), 0.5, shared=2)
    assert alone.seconds == pytest.approx(50, rel=0.02)
    assert together.seconds == pytest.approx(55, rel=0.02)
