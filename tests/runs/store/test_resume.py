"""Running again resumes, extends or starts over; only one process can write; damage is reported and repaired."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import gradlab
from gradlab.errors import EnvironmentFault, StoreError
from gradlab.runs.store.files import Lock, read_regular, sealed
from gradlab.runs.store.folder import RunFolder
from gradlab.trials.outcome import TrialResult


def trained(tree: dict[str, Any], out: Path, **options: Any) -> tuple[list[str], gradlab.Result]:
    """Return the names of the trials that a run actually trained, and its result."""
    names: list[str] = []
    tree = {"figures": [], **tree}
    result = gradlab.run(tree, out=out, on_results=lambda rs: names.extend(r.trial.name for r in rs), **options)
    return sorted(names), result


def test_a_finished_run_is_read_instead_of_rerun(tree: dict[str, Any], tmp_path: Path) -> None:
    _, first = trained(tree, tmp_path / "run")
    names, second = trained(tree, tmp_path / "run")
    assert names == []
    assert second.measured.hash == first.measured.hash
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_more_seeds_and_more_axis_values_run_only_what_is_new(tree: dict[str, Any], tmp_path: Path) -> None:
    run = tmp_path / "run"
    trained(tree, run)
    names, _ = trained(tree, run, seeds=3)
    assert names == ["plain · seed 2", "residual · seed 2"]
    names, fewer = trained(tree, run, seeds=[1])
    assert names == []
    assert len(fewer.trials()) == 2
    grid = {**tree, "arms": None, "factor": [], "axes": {"model.skip": ["none", "identity"]}}
    names, renamed = trained(grid, run, seeds=2)
    assert names == []
    assert set(renamed.trials()["group"]) == {"skip=none", "skip=identity"}
    assert set(renamed.layers()["group"]) == {"skip=none", "skip=identity"}
    grid["axes"]["model.skip"] = ["none", "identity", "add_then_activate"]
    names, whole = trained(grid, run)
    assert names == ["skip=add_then_activate · seed 0", "skip=add_then_activate · seed 1"]
    assert whole.measured.counts() == {"done": 6, "failed": 0, "diverged": 0}
    assert whole.measured.hash == gradlab.run(grid).measured.hash


def test_another_study_moves_the_old_run_aside_and_says_so(tree: dict[str, Any], tmp_path: Path) -> None:
    run = tmp_path / "run"
    _, first = trained(tree, run)
    names, second = trained(tree, run, overrides={"train.lr": 0.02})
    assert len(names) == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "run~1"]
    assert any("run~1" in note for note in second.notes)
    assert gradlab.open_run(tmp_path / "run~1").measured.hash == first.measured.hash
    assert (tmp_path / "run~1/report.md").is_file()


def test_force_starts_over_and_keeps_the_old_run(tree: dict[str, Any], tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert len(trained(tree, run, force=True)[0]) == 4
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    names, second = trained(tree, run, force=True)
    assert len(names) == 4
    assert gradlab.status(tmp_path / "run~1").hash == second.measured.hash
    trained(tree, run, force=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "run~1", "run~2"]


def test_figures_of_an_earlier_report_are_removed(tree: dict[str, Any], tmp_path: Path) -> None:
    trained(tree, tmp_path / "run")
    trained({**tree, "figures": ["training_loss"]}, tmp_path / "run")
    assert {path.stem for path in (tmp_path / "run/figures").iterdir()} == {"overview", "training_loss"}


def test_a_run_stopped_by_an_error_resumes_to_the_same_hash(tree: dict[str, Any], tmp_path: Path) -> None:
    tree["seeds"] = 6

    def die(results: Any) -> None:
        seen.extend(results)
        if len(seen) >= 5:
            raise RuntimeError("killed")

    seen: list[TrialResult] = []
    with pytest.raises(RuntimeError):
        gradlab.run(tree, out=tmp_path / "run", on_results=die)
    state = gradlab.status(tmp_path / "run")
    assert not state.alive
    assert state.done >= 5  # finished trials were committed although the run crashed
    names, result = trained(tree, tmp_path / "run")
    assert len(names) == 12 - state.done
    assert result.measured.hash == gradlab.run(tree).measured.hash


FAILING = """
import os
import numpy as np
from gradlab.network import Activation


class Moody(Activation):
    '''f(x) = x, on good days.'''

    name = "moody"

    def forward(self, x):
        if os.environ.get("GRADLAB_TEST_MOOD") == "bad":
            raise RuntimeError("not today")
        return x

    def slope(self, x, y):
        return np.ones_like(x)
"""


def moody(tree: dict[str, Any], tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "moody.py").write_text(FAILING)
    arms = {"good": {}, "moody": {"model.activation": "moody"}}
    return {**tree, "parts": [str(tmp_path / "moody.py")], "arms": arms, "factor": "model.activation"}


def test_a_failed_trial_is_recorded_and_retried(
    tree: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = moody(tree, tmp_path)
    monkeypatch.setenv("GRADLAB_TEST_MOOD", "bad")
    _, first = trained(tree, tmp_path / "run")
    assert first.measured.counts() == {"done": 2, "failed": 2, "diverged": 0}
    assert first.measured.errors() == {"RuntimeError: not today": 2}
    state = gradlab.status(tmp_path / "run")
    assert (state.done, state.failed, state.left, state.finished) == (2, 2, 0, True)
    monkeypatch.delenv("GRADLAB_TEST_MOOD")
    names, second = trained(tree, tmp_path / "run")
    assert names == ["moody · seed 0", "moody · seed 1"]
    assert second.measured.counts() == {"done": 4, "failed": 0, "diverged": 0}
    assert len(second.trials()) == 4


def test_fail_fast_stops_at_the_first_failure(
    tree: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = moody(tree, tmp_path)
    tree["seeds"] = 50
    monkeypatch.setenv("GRADLAB_TEST_MOOD", "bad")
    result = gradlab.run(tree, out=tmp_path / "run", fail_fast=True, executor="inline")
    assert result.stopped is False
    assert result.unfinished
    assert "Unfinished" in result.report()
    assert 1 <= result.measured.counts()["failed"] < 50
    assert len(result.trials()) < 100


def test_a_damaged_chunk_is_reported_and_moved_aside_and_its_trials_rerun(tree: dict[str, Any], tmp_path: Path) -> None:
    """Promise 5."""
    run = tmp_path / "run"
    _, first = trained(tree, run, executor="inline")
    trained(tree, run, seeds=3)
    file = run / "results/000001/curves.parquet"
    file.write_bytes(file.read_bytes()[:-7])
    opened = gradlab.open_run(run)
    assert any("000001/curves.parquet is damaged" in note and "were written" in note for note in opened.notes)
    assert set(opened.curves()["seed"]) == {2}  # the rest of the run is read
    names, again = trained(tree, run, seeds=3)
    assert names
    assert "residual · seed 2" not in names
    assert any("000001/curves.parquet is damaged" in note for note in again.notes)
    assert "is damaged" in again.report()
    assert (run / "damaged/000001~1/curves.parquet").is_file()
    assert again.measured.hash == gradlab.run(tree, seeds=3).measured.hash
    assert first.measured.hash == gradlab.run(tree).measured.hash


def test_status_and_open_report_a_damaged_trials_table_and_count_its_trials_as_left(
    tree: dict[str, Any], tmp_path: Path
) -> None:
    trained(tree, tmp_path / "run", seeds=1)
    trained(tree, tmp_path / "run", seeds=2)
    file = tmp_path / "run/results/000002/trials.parquet"
    file.write_bytes(b"\0" * len(file.read_bytes()))
    state = gradlab.status(tmp_path / "run")
    assert state.left > 0
    assert "000002/trials.parquet is damaged: its checksum does not fit" in state.damaged[0]
    opened = gradlab.open_run(tmp_path / "run")
    assert opened.unfinished
    assert "is damaged" in opened.report()


def test_a_plan_or_environment_that_is_not_json_is_reported(tree: dict[str, Any], tmp_path: Path) -> None:
    run = tmp_path / "run"
    trained(tree, run)
    for name, words in (("plan.json", {}), ("environment.json", {"mixed": True})):
        path = run / name
        path.write_bytes(path.read_bytes()[:-20])
        if words:
            with pytest.raises(StoreError, match=rf"{name} is damaged.*--mixed continues"):
                trained(tree, run)
        else:
            with pytest.raises(StoreError, match=rf"{name} is damaged"):
                gradlab.open_run(run)
        names, result = trained(tree, run, **words)  # it is rewritten, and nothing is trained again
        assert names == []
        assert any(f"{name} is damaged" in note for note in result.notes)
    assert trained(tree, run)[1].notes == ()


def test_a_run_started_under_other_versions_is_not_resumed_silently(tree: dict[str, Any], tmp_path: Path) -> None:
    run = tmp_path / "run"
    trained(tree, run)
    environment = json.loads((run / "environment.json").read_text())
    environment["packages"]["numpy"] = "1.0"
    (run / "environment.json").write_bytes(sealed(environment))
    assert trained(tree, run)[0] == []  # nothing left to run, so nothing to refuse
    with pytest.raises(StoreError, match=r"begun elsewhere \(numpy was 1\.0, is .*--mixed continues"):
        trained(tree, run, seeds=3)
    names, mixed = trained(tree, run, seeds=3, mixed=True)
    assert len(names) == 2
    assert "different environments are mixed" in mixed.report()
    assert len(json.loads((run / "environment.json").read_text())["also"]) == 1


def test_a_run_under_other_numerics_of_the_engine_is_refused(
    tree: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gradlab.engines.fused import Fused

    trained(tree, tmp_path / "run")
    monkeypatch.setattr(Fused, "numerics", Fused.numerics + 1)
    with pytest.raises(StoreError, match=r"other numerics \(plain: fused-.*--force starts afresh"):
        trained(tree, tmp_path / "run")
    assert len(trained(tree, tmp_path / "run", force=True)[0]) == 4


def test_a_run_of_another_format_is_refused(tree: dict[str, Any], tmp_path: Path) -> None:
    trained(tree, tmp_path / "run")
    plan = json.loads((tmp_path / "run/plan.json").read_text())
    (tmp_path / "run/plan.json").write_bytes(sealed({**plan, "format": 99}))
    with pytest.raises(StoreError, match="format 99"):
        trained(tree, tmp_path / "run")


def test_a_folder_that_is_not_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="does not exist"):
        gradlab.status(tmp_path / "nothing")
    with pytest.raises(StoreError, match=r"no plan\.json"):
        gradlab.open_run(tmp_path)


# ---------------------------------------------------------------------- the lock


def test_a_second_coordinator_is_refused_with_the_first_ones_process_id(tree: dict[str, Any], tmp_path: Path) -> None:
    refused: list[str] = []

    def second(tally: Any) -> None:
        with pytest.raises(StoreError) as caught:
            gradlab.run(tree, out=tmp_path / "run")
        refused.append(str(caught.value))
        with pytest.raises(StoreError):
            gradlab.run(tree, out=tmp_path / "run", force=True)
        assert gradlab.status(tmp_path / "run").alive

    result = gradlab.run(tree, out=tmp_path / "run", on_start=second)
    assert f"process {os.getpid()} on" in refused[0]
    assert result.measured.counts()["done"] == 4
    assert not gradlab.status(tmp_path / "run").alive


def test_the_lock_of_a_dead_process_is_released(tmp_path: Path) -> None:
    code = "import sys, os; from pathlib import Path; from gradlab.runs.store.files import Lock; " \
        "Lock.take(Path(sys.argv[1])); print('held', flush=True); os.kill(os.getpid(), 9)"  # fmt: skip
    dead = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
    assert dead.stdout == "held\n"
    assert (tmp_path / "lock").read_text()  # the file is still there, but it is ignored
    Lock.take(tmp_path).release()


def test_status_during_a_run_shows_running_trials_with_their_loss(tree: dict[str, Any], tmp_path: Path) -> None:
    tree["base"]["train"] |= {"steps": 3_000_000, "engine": "reference"}
    tree["measure"] = {"layers": []}
    (tmp_path / "long.json").write_text(json.dumps(tree))
    code = "import json, sys, gradlab; gradlab.run(json.load(open(sys.argv[1])), out=sys.argv[2], workers=2)"
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "long.json"), str(tmp_path / "run")])
    try:
        deadline = time.monotonic() + 60
        state = None
        while state is None or not any(each["steps"] for each in state.running):
            assert time.monotonic() < deadline
            time.sleep(0.2)
            if (tmp_path / "run/plan.json").exists():
                state = gradlab.status(tmp_path / "run")
        assert state.alive
        assert f"process {process.pid}" in str(state.holder)
        assert (state.done, state.planned) == (0, 4)
        assert state.left == 4 - len(state.running)
        assert isinstance(state.running[0]["loss"], float)
    finally:
        process.kill()
        process.wait()
    state = gradlab.status(tmp_path / "run")
    assert (state.alive, state.running, state.left, state.finished) == (False, (), 4, False)


# ---------------------------------------------------------------------- unwritable locations


def test_a_read_only_folder_is_reported(tree: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run"
    trained(tree, run)
    opened = os.open

    def read_only(path: Any, flags: int, *rest: Any, **options: Any) -> Any:
        if str(path).startswith(str(run)) and flags & (os.O_WRONLY | os.O_RDWR):
            raise OSError(30, "Read-only file system")
        return opened(path, flags, *rest, **options)

    monkeypatch.setattr(os, "open", read_only)
    with pytest.raises(StoreError, match=r"cannot write to the run folder .*run: Read-only file system"):
        gradlab.run(tree, out=run, seeds=3)
    assert gradlab.status(run).done == 4  # reading the status needs no write permission
    assert gradlab.open_run(run).export("csv")


def test_a_full_disk_loses_nothing_and_the_run_resumes_once_there_is_space(
    tree: dict[str, Any], tmp_path: Path
) -> None:
    """Promise 5, on a real file system of 2 MB if one can be mounted, else with a limit on file sizes."""
    run, room = tmp_path / "disk/run", tmp_path / "disk"
    room.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(room)], capture_output=True)
    tree["seeds"] = 40
    tree["base"]["model"]["width"] = tree["base"]["data"]["dim"] = 96
    tree["base"]["train"]["steps"] = 2
    (tmp_path / "study.json").write_text(json.dumps(tree))
    tree["figures"] = []
    (tmp_path / "study.json").write_text(json.dumps(tree))
    limit = "" if mounted.returncode == 0 else "resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000)); "
    code = "import json, sys, resource, gradlab, gradlab.runs.coordinator as c; c.COMMIT_SECONDS = 0.05; " + limit + (
        "tree = json.load(open(sys.argv[1])); gradlab.run(tree, seeds=1, out=sys.argv[2]); "
        "gradlab.run(tree, out=sys.argv[2])"
    )  # fmt: skip
    try:
        full = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "study.json"), str(run)], capture_output=True, text=True
        )
        assert full.returncode != 0
        reason = "No space left on device" if mounted.returncode == 0 else "File too large"
        assert f"cannot write {run}" in full.stderr.splitlines()[-1]
        assert reason in full.stderr.splitlines()[-1]
        before = gradlab.status(run)
        assert not before.alive
        assert before.damaged == ()
        if mounted.returncode == 0:
            assert before.done >= 2  # the first seed was finished before
            subprocess.run(["mount", "-o", "remount,size=60m", str(room)], check=True)
        names, result = trained(tree, run)
        assert len(names) == 80 - before.done
        assert result.measured.hash == gradlab.run(tree).measured.hash
    finally:
        if mounted.returncode == 0:
            subprocess.run(["umount", "-l", str(room)], check=True)


def test_a_folder_abandoned_right_after_its_start_can_be_used(tree: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "run/.writing/000001").mkdir(parents=True)
    (tmp_path / "run/lock").touch()
    assert len(trained(tree, tmp_path / "run")[0]) == 4
    assert not (tmp_path / "run/.writing").exists()


def test_a_worker_process_that_dies_is_reported(tree: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(FAILING.replace('raise RuntimeError("not today")', "os._exit(9)"))
    tree = {**moody(tree, tmp_path), "parts": [str(tmp_path / "mine.py")]}
    os.environ["GRADLAB_TEST_MOOD"] = "bad"
    try:
        with pytest.raises(EnvironmentFault, match="a worker process died"):
            gradlab.run(tree, out=tmp_path / "run", executor="processes", workers=1)
    finally:
        del os.environ["GRADLAB_TEST_MOOD"]
    assert trained(tree, tmp_path / "run")[1].measured.counts()["done"] == 4


def test_a_folder_can_be_taken_twice_in_a_row(tree: dict[str, Any], tmp_path: Path) -> None:
    plan = gradlab.plan(tree)
    for _ in range(2):
        with RunFolder.start(tmp_path / "run", plan, {}):
            assert (tmp_path / "run/lock").read_text()
        assert (tmp_path / "run/lock").read_text() == ""


# ---------------------------------------------------------------------- found by reviewers


def test_a_folder_with_a_users_study_file_is_not_mistaken_for_a_run(tree: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text("# mine")
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures/mine.png").write_text("mine")
    with pytest.raises(StoreError, match="not a run of gradlab"):
        gradlab.run(tree, out=tmp_path)
    run = tmp_path / "run"
    gradlab.run({**tree, "figures": ["training_loss"]}, out=run)
    (run / "figures/mine.png").write_text("mine")
    gradlab.run({**tree, "figures": []}, out=run)
    assert [path.name for path in (run / "figures").iterdir()] == ["mine.png"]


def test_the_remains_of_a_run_that_died_at_once_are_cleaned_up(tree: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/lock").touch()
    (tmp_path / "run/.plan.json.123.tmp").write_text("{")
    assert len(trained(tree, tmp_path / "run")[0]) == 4
    assert not (tmp_path / "run/.plan.json.123.tmp").exists()


def test_the_saved_plan_alone_defines_a_run(tree: dict[str, Any], tmp_path: Path) -> None:
    """A crash between two writes, or a manual edit, cannot put results under another name."""
    _, ran = trained(tree, tmp_path / "run")
    swapped = {**tree, "arms": dict(reversed(tree["arms"].items()))}
    from gradlab.spec.yaml_text import dump

    (tmp_path / "run/study.yaml").write_text(dump(swapped))
    assert gradlab.open_run(tmp_path / "run").answer == ran.answer
    plan = json.loads((tmp_path / "run/plan.json").read_text())
    plan["groups"] = plan["groups"][:1]
    (tmp_path / "run/plan.json").write_text(json.dumps(plan))
    with pytest.raises(StoreError, match="its checksum does not match"):
        gradlab.open_run(tmp_path / "run")
    (tmp_path / "run/plan.json").write_bytes(sealed(plan))
    with pytest.raises(StoreError, match="does not belong to its study"):
        gradlab.open_run(tmp_path / "run")
    (tmp_path / "run/plan.json").write_bytes(sealed({"format": plan["format"], "groups": []}))
    for look in (gradlab.open_run, gradlab.status):
        with pytest.raises(StoreError, match=r"plan\.json is damaged: 'study': missing"):
            look(tmp_path / "run")


def test_a_run_without_its_plan_is_recognized_by_its_results(tree: dict[str, Any], tmp_path: Path) -> None:
    trained(tree, tmp_path / "run")
    (tmp_path / "run/plan.json").unlink()
    assert trained(tree, tmp_path / "run")[0] == []
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_run_without_its_environment_can_be_reported(tree: dict[str, Any], tmp_path: Path) -> None:
    trained(tree, tmp_path / "run")
    (tmp_path / "run/environment.json").unlink()
    assert "environment was not recorded" in gradlab.open_run(tmp_path / "run").report()


def test_a_renamed_part_file_leaves_no_old_copy(tree: dict[str, Any], tmp_path: Path) -> None:
    tree = moody(tree, tmp_path)
    trained(tree, tmp_path / "run")
    (tmp_path / "moody.py").rename(tmp_path / "moodier.py")
    tree["parts"] = [str(tmp_path / "moodier.py")]
    assert trained(tree, tmp_path / "run")[0] == []
    (tmp_path / "run/parts/0/.moodier.py.9.tmp").write_text("half")
    assert gradlab.open_run(tmp_path / "run").measured.counts()["done"] == 4


def test_saving_over_an_overlapping_run_adds_only_what_is_new(
    tree: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = {**tree, "figures": []}
    gradlab.run(tree, out=tmp_path / "run")
    gradlab.run(tree, seeds=3).save(tmp_path / "run")
    opened = gradlab.open_run(tmp_path / "run")
    assert len(opened.curves().query("metric == 'loss'")) == 6 * 20
    monkeypatch.setenv("GRADLAB_TEST_MOOD", "bad")
    gradlab.run({**moody(tree, tmp_path), "figures": []}, out=tmp_path / "failing")
    opened = gradlab.open_run(tmp_path / "failing")
    opened.save(tmp_path / "failing")
    assert len(gradlab.open_run(tmp_path / "failing").curves()) == len(opened.curves())


def test_unfinished_is_the_same_for_a_fresh_and_a_reopened_run(
    tree: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    trained(tree, run, seeds=4)
    wider = {**tree, "arms": {**tree["arms"], "third": {"model.skip": "rezero"}}}
    stopped = gradlab.run({**wider, "figures": []}, out=run, on_start=lambda tally: tally.monitor.stop())
    assert stopped.unfinished
    assert gradlab.open_run(run).unfinished  # four other trials do not replace the two missing ones
    monkeypatch.setenv("GRADLAB_TEST_MOOD", "bad")
    _, failed = trained(moody(tree, tmp_path), tmp_path / "failing")
    assert not failed.unfinished
    assert not gradlab.open_run(tmp_path / "failing").unfinished


def test_groups_that_share_their_trials_have_one_hash(tree: dict[str, Any], tmp_path: Path) -> None:
    tree["arms"] = {"one": {}, "two": {}}
    _, result = trained(tree, tmp_path / "run")
    state = gradlab.status(tmp_path / "run")
    assert result.measured.hash == state.hash
    assert (state.done, state.planned, state.finished, result.unfinished) == (2, 2, True, False)


def test_mixed_environments_are_listed_in_every_later_report(tree: dict[str, Any], tmp_path: Path) -> None:
    run = tmp_path / "run"
    trained(tree, run, seeds=1)
    environment = json.loads((run / "environment.json").read_text())
    (run / "environment.json").write_bytes(sealed({**environment, "processor": "a slower one"}))
    trained(tree, run, mixed=True)
    assert "processor was a slower one" in gradlab.open_run(run).report()
    trained(tree, run)
    assert "processor was a slower one" in (run / "report.md").read_text()


def test_other_numerics_are_refused_even_with_more_seeds_or_another_arm(
    tree: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gradlab.engines.fused import Fused

    tree["arms"]["slow"] = {"train.engine": "reference"}
    tree["figures"] = []
    gradlab.run(tree, out=tmp_path / "run")
    monkeypatch.setattr(Fused, "numerics", 99)
    with pytest.raises(StoreError, match="other numerics"):
        gradlab.run(tree, seeds=3, out=tmp_path / "run")


def test_a_temporarily_unreadable_chunk_is_not_moved_aside(
    tree: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained(tree, tmp_path / "run")

    def refused(path: Path) -> bytes:
        if path.name == "curves.parquet":
            raise OSError(5, "Input/output error")
        return read_regular(path)

    monkeypatch.setattr("gradlab.runs.store.files.read_regular", refused)
    with pytest.raises(StoreError, match=r"cannot read .*curves\.parquet: Input/output error"):
        trained(tree, tmp_path / "run")
    monkeypatch.undo()
    assert trained(tree, tmp_path / "run")[0] == []


def test_status_counts_a_retried_trial_as_running(
    tree: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = moody(tree, tmp_path)
    monkeypatch.setenv("GRADLAB_TEST_MOOD", "bad")
    _, result = trained(tree, tmp_path / "run")
    trial = next(t for t in result.measured.trials if t.group == "moody")
    lock = Lock.take(tmp_path / "run")
    (tmp_path / "run/progress.json").write_text(json.dumps({"running": [{"trial": trial.id}]}))
    state = gradlab.status(tmp_path / "run")
    lock.release()
    assert (state.done, state.failed, len(state.running), state.left) == (2, 1, 1, 0)
    assert not state.finished


def test_a_path_that_is_not_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file.yaml").touch()
    with pytest.raises(StoreError, match="is a file; give a run folder"):
        gradlab.status(tmp_path / "file.yaml")
    with pytest.raises(StoreError, match=r"aaa.*File name too long"):
        gradlab.status(tmp_path / ("a" * 300))


def test_too_many_tensors_for_one_file_become_several_chunks(
    tree: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gradlab.runs.store import records

    monkeypatch.setattr(records, "MOST_TENSORS", 13)  # a network here has six
    result = gradlab.run({**tree, "figures": []}, seeds=3)
    result.save(tmp_path / "run")
    assert len(list((tmp_path / "run/results").iterdir())) == 3
    opened = gradlab.open_run(tmp_path / "run")
    assert opened.measured.hash == result.measured.hash
    assert len(opened.curves()) == len(result.curves())
    assert opened.weights("plain", 2)["layer1.weight"].shape == (4, 4)


def test_a_study_in_the_current_folder_can_be_forced(
    tree: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    trained(tree, Path())
    trained(tree, Path(), force=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "here~1"]
    assert gradlab.status(tmp_path / "here").done == 4


@pytest.mark.parametrize(
    ("variable", "value", "word"),
    [
        ("NUMBA_CPU_NAME", "generic", "instruction set"),
        ("NUMBA_CPU_FEATURES", "+sse2", "instruction set"),
        ("ATEN_CPU_CAPABILITY", "default", "settings .*ATEN_CPU_CAPABILITY=default"),
        ("NPY_DISABLE_CPU_FEATURES", "AVX2", "settings"),
    ],
)
def test_a_run_is_not_resumed_under_another_instruction_set(
    variable: str, value: str, word: str, tree: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained(tree, tmp_path / "run", seeds=1)
    monkeypatch.setenv(variable, value)
    with pytest.raises(StoreError, match=f"begun elsewhere .*{word}"):
        trained(tree, tmp_path / "run")
