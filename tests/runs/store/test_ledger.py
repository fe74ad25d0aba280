"""The ledger: a chain of lines that are synced, repaired by name after a death, and appended to by any process."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from commands import gradlab as command

import gradlab
from gradlab.errors import StoreError
from gradlab.runs.store import ledger as ledgers
from gradlab.runs.store.history import History, history_of, read_history
from gradlab.runs.store.ledger import HEAD, LEDGER, LedgerWriter, read_ledger, record_look
from gradlab.tell.history import history_json, tell_history


def kinds(folder: Path) -> list[str]:
    found = read_ledger(folder)
    assert found is not None
    assert (found.problems, found.torn, found.cut) == ((), b"", 0)
    return [entry.kind for entry in found.entries]


def append_many(folder: str, name: str) -> None:
    writer = LedgerWriter(Path(folder))
    for number in range(25):
        writer.append([("look", {"by": name, "number": number})])


def test_the_plan_is_frozen_before_the_first_trial_and_a_look_comes_last(tree: dict[str, Any], tmp_path: Path) -> None:
    seen: list[list[str]] = []
    gradlab.run(tree, out=tmp_path / "run", on_start=lambda _: seen.append(kinds(tmp_path / "run")))
    assert seen == [["begun", "plan"]]
    now = kinds(tmp_path / "run")
    assert now[:3] == ["begun", "plan", "trials"]
    assert now[-1] == "look"
    found = read_ledger(tmp_path / "run")
    assert found is not None
    rows = [row for entry in found.of("trials") for row in entry.data["trials"]]
    assert sorted(row[0] for row in rows) == sorted(gradlab.open_run(tmp_path / "run").trials()["trial"])
    assert found.entries[-1].data["finished"] == 2


def test_looking_again_at_the_same_results_is_one_look_and_status_writes_nothing(
    tree: dict[str, Any], tmp_path: Path
) -> None:
    gradlab.run(tree, out=tmp_path / "run")
    before = (tmp_path / "run" / LEDGER).read_bytes()
    assert command("report", "run", cwd=tmp_path).returncode == 0
    gradlab.run(tree, out=tmp_path / "run")
    gradlab.status(tmp_path / "run")
    gradlab.open_run(tmp_path / "run").to_json()
    assert (tmp_path / "run" / LEDGER).read_bytes() == before


def test_processes_that_append_at_the_same_time_make_one_chain(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    others = [context.Process(target=append_many, args=(str(tmp_path), name)) for name in ("a", "b", "c")]
    for process in others:
        process.start()
    for process in others:
        process.join()
    assert len(kinds(tmp_path)) == 75
    found = read_ledger(tmp_path)
    assert found is not None
    assert [entry.number for entry in found.entries] == list(range(1, 76))


@pytest.mark.parametrize("left", [1, 20, -1])
def test_a_torn_last_line_is_named_and_repaired_by_name(left: int, tmp_path: Path) -> None:
    LedgerWriter(tmp_path).append([("look", {"number": 1})])
    whole = (tmp_path / LEDGER).read_bytes()
    head = (tmp_path / HEAD).read_bytes()
    LedgerWriter(tmp_path).append([("look", {"number": 2})])
    second = (tmp_path / LEDGER).read_bytes()[len(whole) :]
    (tmp_path / LEDGER).write_bytes(whole + second[:left])
    (tmp_path / HEAD).write_bytes(head)
    torn = read_ledger(tmp_path)
    assert torn is not None
    assert torn.torn == second[:left]
    assert "torn" in " ".join(history_of(torn).problems)
    LedgerWriter(tmp_path).append([("look", {"number": 3})])
    whole_line = left == -1  # only the end of the line is missing
    assert kinds(tmp_path) == ["look", *(["look"] if whole_line else []), "repaired", "look"]
    assert [fact.code for fact in tell_history(read_history(tmp_path))] == ["ledger_repaired"]


def test_every_byte_that_is_flipped_in_a_ledger_is_named(tmp_path: Path) -> None:
    LedgerWriter(tmp_path).append([("look", {"number": 1}), ("look", {"number": 2})])
    whole = (tmp_path / LEDGER).read_bytes()
    for place in range(len(whole)):
        (tmp_path / LEDGER).write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        found = read_ledger(tmp_path)
        assert found is not None
        assert found.problems or found.torn or found.cut, place


@pytest.mark.parametrize("data", [{}, {"claims": 1}, {"trials": [3]}, {"trials": {"a": 1}}, {"groups": [[]]}])
@pytest.mark.parametrize("kind", ["plan", "trials", "look", "missing", "altered", "set_aside", "cut", "begun", "new"])
def test_an_entry_of_another_shape_is_named_and_breaks_nothing(kind: str, data: Any, tmp_path: Path) -> None:
    LedgerWriter(tmp_path).append([(kind, data), (kind, data)])
    history = read_history(tmp_path)
    assert isinstance(history, History)
    assert history_json(history)
    assert history.problems or kind in ("look", "begun", "new")


def test_a_ledger_that_is_a_link_or_a_pipe_is_neither_followed_nor_waited_for(
    tree: dict[str, Any], tmp_path: Path
) -> None:
    gradlab.run(tree, out=tmp_path / "run")
    (tmp_path / "elsewhere").write_text("mine")
    (tmp_path / "run" / LEDGER).unlink()
    (tmp_path / "run" / LEDGER).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="cannot write"):
        LedgerWriter(tmp_path / "run").append([("look", {})])
    assert (tmp_path / "elsewhere").read_text() == "mine"
    (tmp_path / "run" / LEDGER).unlink()
    os.mkfifo(tmp_path / "run" / LEDGER)
    with pytest.raises(StoreError):
        gradlab.open_run(tmp_path / "run")


def test_a_full_disk_leaves_no_half_line_and_is_named(
    tree: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gradlab.run(tree, out=tmp_path / "run")
    before = (tmp_path / "run" / LEDGER).read_bytes()

    def full(file: Any, content: bytes) -> None:
        file.write(content[:40])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ledgers, "_write_all", full)
    with pytest.raises(StoreError, match=r"cannot write .*ledger.jsonl: No space left on device"):
        gradlab.run(tree, out=tmp_path / "run", seeds=3)
    assert (tmp_path / "run" / LEDGER).read_bytes() == before
    monkeypatch.undo()
    gradlab.run(tree, out=tmp_path / "run", seeds=3)
    assert gradlab.verify(tmp_path / "run", sample=0).ok


def test_a_look_that_cannot_be_recorded_is_said_and_not_fatal(
    tree: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gradlab.run(tree, out=tmp_path / "run")
    access = os.access
    with monkeypatch.context() as patched:
        patched.setattr(os, "access", lambda path, mode, **_: mode != os.W_OK and access(path, mode))
        done = command("report", "run", cwd=tmp_path)
    assert done.returncode == 0
    assert "no permission to write" in done.stderr

    def refused(self: Any, notes: Any) -> None:
        raise StoreError("cannot write ledger.jsonl: Permission denied")

    gradlab.run(tree, out=tmp_path / "run", seeds=1)
    (tmp_path / "run/report.md").unlink()
    lines = (tmp_path / "run" / LEDGER).read_bytes().splitlines(keepends=True)
    (tmp_path / "run" / LEDGER).write_bytes(b"".join(lines[:-1]))
    monkeypatch.setattr(LedgerWriter, "append", refused)
    assert record_look(tmp_path / "run", {"results": "other"}, {}) == "cannot write ledger.jsonl: Permission denied"
    gradlab.open_run(tmp_path / "run").rewrite(("md",))
    assert "not recorded in the ledger" in (tmp_path / "run/report.md").read_text()


def test_a_chunk_committed_just_before_a_death_is_recorded_when_the_run_goes_on(
    tree: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(LedgerWriter, "commit", lambda *_, **__: (_ for _ in ()).throw(MemoryError))
        with pytest.raises(MemoryError):
            gradlab.run(tree, out=tmp_path / "run", executor="inline")
    verified = gradlab.verify(tmp_path / "run", sample=0)
    assert verified.ok
    assert "not recorded yet" in " ".join(check.summary for check in verified.checks)
    result = gradlab.run(tree, out=tmp_path / "run")
    assert result.remarks == ()
    assert gradlab.verify(tmp_path / "run", sample=None).ok


CODE = """
import json, sys
import gradlab, gradlab.runs.coordinator as coordinator
coordinator.COMMIT_SECONDS = 0.01
gradlab.run(json.load(open(sys.argv[1])), out=sys.argv[2], executor="pool", workers=2, figures=False)
"""


def killed(tree: dict[str, Any], folder: Path, kills: int, seed: int) -> None:
    """Kill a run again and again at random moments: its ledger is whole after each, and verifies after the last."""
    tree["base"]["train"] |= {"engine": "reference", "steps": 60}
    tree |= {"seeds": 60, "measure": {"layers": ["end"]}}
    (folder / "study.json").write_text(json.dumps(tree))
    run, chance = folder / "run", random.Random(seed)
    for _ in range(kills):
        before = len(read.entries) if (read := read_ledger(run)) else 0
        process = subprocess.Popen([sys.executable, "-c", CODE, str(folder / "study.json"), str(run)])
        while process.poll() is None and len(now.entries if (now := read_ledger(run)) else ()) <= before:
            time.sleep(0.002)
        time.sleep(chance.random() * 0.2)
        process.send_signal(signal.SIGKILL)
        process.wait()
        found = read_ledger(run)
        assert found is not None
        assert (found.problems, found.cut) == ((), 0)
        if (run / "plan.json").exists():
            assert gradlab.verify(run, sample=0).findings == ()
    result = gradlab.run(tree, out=run, figures=False)
    assert [remark for remark in result.remarks if "torn" not in remark] == []
    assert gradlab.verify(run, sample=5).findings == ()


def test_three_kills_leave_a_ledger_that_verifies(tree: dict[str, Any], tmp_path: Path) -> None:
    killed(tree, tmp_path, 3, seed=int(os.environ.get("GRADLAB_TEST_SEED", "1")))


@pytest.mark.slow
def test_sixty_kills_leave_a_ledger_that_verifies(tree: dict[str, Any], tmp_path: Path) -> None:
    killed({**tree, "seeds": 1000}, tmp_path, 60, seed=2)
