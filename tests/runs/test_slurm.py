"""The SLURM executor: submitit's local mode, and a real SLURM of one node where its packages are installed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import gradlab
from gradlab.errors import EnvironmentFault, InvalidInput
from gradlab.runs import remote
from gradlab.runs.executors.slurm import Spool, call_aside, parse_minutes
from gradlab.runs.remote import Answer
from gradlab.runs.store.records import chunk_paths
from gradlab.trials.outcome import TrialResult

pytest.importorskip("submitit", reason="needs the extra: pip install 'gradlab[slurm]'")

from commands import ENVIRONMENT
from long_study import committed_trials, long_tree
from one_node_slurm import one_node_slurm, why_not


def settings(folder: Path, **more: Any) -> dict[str, Any]:
    return {"mode": "local", "folder": str(folder / "jobs"), **more}


def test_a_bundle_is_taken_once_and_freed_when_its_job_is_gone(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    spool.path.mkdir()
    spool.make(None)  # type: ignore[arg-type]
    names = {spool.add(((0, 0, "a"),)), spool.add(((0, 1, "b"),))}
    first, second = spool.take("7.0"), spool.take("8.0")
    assert first is not None
    assert second is not None
    assert {first[0], second[0]} == names
    assert spool.take("9.0") is None
    spool.answer("7.0", first[0], Answer())
    spool.put_back("7")  # answered, so nothing is left of this job
    assert spool.take("9.0") is None
    spool.put_back("8")
    assert spool.take("9.1") == second
    assert spool.remove_claims("9") == [second[0]]
    assert spool.take("9.1") is None
    assert [name for name, _ in spool.answers()] == [first[0]]
    assert list(spool.answers()) == []


def test_workers_end_when_they_are_told_to_or_the_coordinator_is_gone(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    spool.path.mkdir()
    spool.make(None)  # type: ignore[arg-type]
    assert not spool.stopping
    os.utime(spool.path / "alive", (0, 0))
    assert spool.stopping
    spool.touch()
    assert not spool.stopping
    spool.stop()
    assert spool.stopping
    assert Spool(tmp_path / "nowhere").stopping


@pytest.mark.parametrize(("text", "minutes"), [("90", 90), ("1:30:00", 90), ("2-00:00:30", 2881), ("0:00:30", 1)])
def test_a_time_limit_is_written_as_for_sbatch(text: str, minutes: int) -> None:
    assert parse_minutes(text) == minutes


@pytest.mark.parametrize("text", ["", "soon", "-1", "1:2:3:4", "0"])
def test_a_wrong_time_limit_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="write minutes"):
        parse_minutes(text)


def test_a_machine_without_slurm_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name, **options: None)
    with pytest.raises(InvalidInput, match="mode=local"):
        gradlab.run(long_tree(1, 10), executor="slurm", settings={"folder": str(tmp_path / "jobs")})


def test_a_signal_that_ends_a_job_ends_no_trial_as_failed() -> None:
    """submitit's handler calls sys.exit, and inside a trial that would be recorded as a failure of the trial."""
    inside: list[str] = []

    def train() -> str:
        try:
            os.kill(os.getpid(), signal.SIGUSR2)
            time.sleep(0.5)
        except BaseException as error:
            inside.append(repr(error))
        return "trained"

    def leave(number: int, frame: Any) -> None:
        raise SystemExit(-1)

    before = signal.signal(signal.SIGUSR2, leave)
    try:
        with pytest.raises(SystemExit):
            call_aside(train)
    finally:
        signal.signal(signal.SIGUSR2, before)
    time.sleep(0.6)
    assert inside == []
    assert call_aside(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        call_aside(lambda: 1 // 0)


@pytest.mark.clusters
def test_local_jobs_change_no_bit_and_leave_no_files(tmp_path: Path) -> None:
    study = long_tree(seeds=20, steps=100)
    found = gradlab.run(study, executor="slurm", settings=settings(tmp_path, cpus=2))
    assert found.measured.hash == gradlab.run(study, executor="inline").measured.hash
    assert list((tmp_path / "jobs").iterdir()) == []


@pytest.mark.clusters
def test_the_bundles_of_a_killed_job_are_run_by_another(tmp_path: Path) -> None:
    study = long_tree(seeds=300, steps=300)
    killed: list[int] = []

    def kill_one(results: Sequence[TrialResult]) -> None:
        if not killed:
            claims = [name for spool in (tmp_path / "jobs").iterdir() for name in os.listdir(spool / "taken")]
            if claims:
                killed.append(int(claims[0].split(".")[0]))
                subprocess.run(["pkill", "-KILL", "-P", str(killed[0])], check=False)
                os.kill(killed[0], signal.SIGKILL)

    found = gradlab.run(
        study, executor="slurm", settings=settings(tmp_path, cpus=1), out=tmp_path / "run", on_results=kill_one
    )
    assert killed
    rows = committed_trials(tmp_path / "run")
    assert len(rows) == len(set(rows)) == 600
    assert found.measured.counts()["failed"] == 0
    assert found.measured.hash == gradlab.run(study, executor="processes", workers=2).measured.hash


@pytest.mark.clusters
def test_results_that_a_killed_driver_left_are_not_run_again(tmp_path: Path) -> None:
    study = long_tree(seeds=100, steps=300)
    (tmp_path / "study.yaml").write_text(json.dumps(study))
    command = [sys.executable, "-m", "gradlab", "run", "study.yaml", "--executor", "slurm"]
    command += ["--set-executor", "mode=local,folder=jobs"]
    driver = subprocess.Popen(command, cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.DEVNULL)
    while driver.poll() is None and not chunk_paths(tmp_path / "runs" / "study"):
        time.sleep(0.02)
    driver.kill()
    driver.wait()
    (left,) = (tmp_path / "jobs").iterdir()
    deadline = time.monotonic() + 60
    while not list((left / "done").iterdir()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert list((left / "done").iterdir())  # the job went on without its driver
    again = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=120)
    assert again.returncode == 0, again.stderr
    rows = committed_trials(tmp_path / "runs" / "study")
    assert len(rows) == len(set(rows)) == 200
    assert list((tmp_path / "jobs").iterdir()) == []
    again_hash = gradlab.open_run(tmp_path / "runs" / "study").measured.hash
    assert again_hash == gradlab.run(study, executor="pool").measured.hash


@pytest.mark.clusters
def test_a_job_of_another_kind_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fingerprint = remote.take_fingerprint()
    monkeypatch.setattr(remote, "take_fingerprint", lambda: {**fingerprint, "processor": "abacus"})
    with pytest.raises(EnvironmentFault, match="processor was abacus"):
        gradlab.run(long_tree(2, 20), executor="slurm", settings=settings(tmp_path))


# ---------------------------------------------------------------------- a real SLURM


@pytest.fixture(scope="module")
def real_slurm() -> Iterator[dict[str, str]]:
    if reason := why_not():
        pytest.skip(reason)
    with one_node_slurm(cpus=2) as environment:
        yield environment


def run_in(environment: dict[str, str], folder: Path, study: dict[str, Any], words: str) -> subprocess.Popen[str]:
    (folder / "study.yaml").write_text(json.dumps(study))
    command = [sys.executable, "-m", "gradlab", "run", "study.yaml", "--executor", "slurm", "--set-executor", words]
    return subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)


def finish(driver: subprocess.Popen[str], folder: Path, study: dict[str, Any], trials: int) -> str:
    _, said = driver.communicate(timeout=600)
    assert driver.returncode == 0, said
    rows = committed_trials(folder / "runs" / "study")
    assert len(rows) == len(set(rows)) == trials
    found = gradlab.open_run(folder / "runs" / "study").measured.hash
    assert found == gradlab.run(study, executor="processes", workers=2).measured.hash
    return said


def wait_for_results(driver: subprocess.Popen[str], folder: Path) -> None:
    while driver.poll() is None and not chunk_paths(folder / "runs" / "study"):
        time.sleep(0.1)


def list_jobs(environment: dict[str, str]) -> list[str]:
    asked = subprocess.run(["squeue", "-h", "-o", "%i"], env=environment, capture_output=True, text=True)
    return asked.stdout.split()


def count_restarts(driver: subprocess.Popen[str], environment: dict[str, str]) -> int:
    """Follow the run's job until the driver ends; gives how often SLURM has started it again."""
    restarts = 0
    while driver.poll() is None:
        for job in list_jobs(environment):
            shown = subprocess.run(["scontrol", "show", "job", job], env=environment, capture_output=True, text=True)
            restarts = max(restarts, int(shown.stdout.split("Restarts=")[1].split()[0]) if shown.stdout else 0)
        time.sleep(1)
    return restarts


@pytest.mark.slurm
def test_a_job_of_two_cores_runs_all_bundles(real_slurm: dict[str, str], tmp_path: Path) -> None:
    study = long_tree(seeds=50, steps=200)
    driver = run_in(real_slurm, tmp_path, study, "partition=short,time=10,cpus=2")
    said = finish(driver, tmp_path, study, 100)
    assert said.count("submitted 1 job (slurm)") == 1


@pytest.mark.slurm
def test_a_cancelled_job_is_replaced(real_slurm: dict[str, str], tmp_path: Path) -> None:
    study = long_tree(seeds=400, steps=300)
    driver = run_in(real_slurm, tmp_path, study, "time=10,cpus=1,jobs=2")
    wait_for_results(driver, tmp_path)
    subprocess.run(["scancel", "--signal=KILL", "--full", list_jobs(real_slurm)[0]], env=real_slurm, check=True)
    said = finish(driver, tmp_path, study, 800)
    assert said.count("submitted") == 2


@pytest.mark.slurm
def test_a_job_that_is_preempted_is_requeued(real_slurm: dict[str, str], tmp_path: Path) -> None:
    """Before it takes a job's machine away, SLURM sends the signal that is sent here."""
    study = long_tree(seeds=400, steps=300)
    driver = run_in(real_slurm, tmp_path, study, "time=30,cpus=1")
    wait_for_results(driver, tmp_path)
    (job,) = list_jobs(real_slurm)
    subprocess.run(["scancel", "--signal=USR2", job], env=real_slurm, check=True)
    restarts = count_restarts(driver, real_slurm)
    said = finish(driver, tmp_path, study, 800)
    assert restarts == 1
    assert said.count("submitted") == 1  # the same job, started again


@pytest.mark.slurm
def test_a_job_whose_time_is_over_is_requeued(real_slurm: dict[str, str], tmp_path: Path) -> None:
    """The signal comes about a minute after the start: `grace` seconds before the end, give or take half a minute."""
    study = long_tree(seeds=1000, steps=1000)
    driver = run_in(real_slurm, tmp_path, study, "time=2,cpus=1,grace=60")
    restarts = count_restarts(driver, real_slurm)
    said = finish(driver, tmp_path, study, 2000)
    assert restarts >= 1
    assert said.count("submitted") == 1  # the same job, started again
