"""`gradlab verify` as a user types it: a short list of checks, findings as sentences, exit codes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from commands import gradlab as command

import gradlab
from gradlab.running import verify
from gradlab.runs.store.environment import environment

TRAIN = """
import random
ARMS = {"slow": {"rate": 0.1}, "fast": {"rate": 0.5}}

def train(rate, seed):
    value = 1.0
    for _ in range(5):
        value -= rate * value * (0.9 + 0.2 * random.random())
    return {"loss": value, "steps": 5}

def other(rate, seed):
    return {"loss": rate, "steps": 5}
"""
PART = """
from gradlab.network import Activation

class Plain(Activation):
    'f(x) = x.'
    name = "straight"
    def forward(self, x): return x
    def slope(self, x, y): return 0 * x + x.dtype.type(1)
"""


@pytest.fixture
def folder(tree: dict[str, Any], tmp_path: Path) -> Path:
    (tmp_path / "study.yaml").write_text(json.dumps(tree))
    assert command("run", "study.yaml", cwd=tmp_path).returncode == 0
    return tmp_path


def test_a_run_that_checks_out_is_exit_code_0_within_80_columns(folder: Path) -> None:
    done = command("verify", "runs/study", "--seed", "1", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 of 4 trials" in " ".join(done.stdout.split())
    assert " failed " not in done.stdout
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    whole = command("verify", "runs/study", "--all", "--json", cwd=folder)
    told = json.loads(whole.stdout)
    assert (whole.returncode, told["ok"], told["complete"]) == (0, True, True)
    assert [check["result"] for check in told["checks"]] == ["ok"] * 8
    assert gradlab.verify(folder / "runs/study", sample=0).checks[-1].result == "not checked"


def test_a_run_that_does_not_check_out_is_exit_code_1_with_a_sentence(folder: Path) -> None:
    shutil.rmtree(folder / "runs/study/results/000001")
    done = command("verify", "runs/study", "--sample", "0", cwd=folder)
    assert done.returncode == 1
    assert "failed      chunks" in done.stdout
    told = json.loads(command("verify", "runs/study", "--sample", "0", "--json", cwd=folder).stdout)
    facts = [fact for check in told["checks"] for fact in check["facts"]]
    assert (facts[0]["code"], facts[0]["subject"]) == ("chunk_gone", "000001")
    assert all(fact["words"] in " ".join(done.stdout.split()) for fact in facts)
    assert all(len(line) <= 80 for line in done.stdout.splitlines())


@pytest.mark.parametrize(
    ("words", "code"),
    [(("verify", "nowhere"), 1), (("verify", "runs/study", "--all", "--sample", "2"), 2), (("verify",), 2)],
)
def test_usage_is_exit_code_2_and_what_is_no_run_is_1(words: tuple[str, ...], code: int, folder: Path) -> None:
    done = command(*words, cwd=folder)
    assert done.returncode == code
    assert "Traceback" not in done.stderr


def test_another_machine_is_refused_with_a_sentence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = environment()
    monkeypatch.setattr(verify, "environment", lambda: {**here, "processor": "another"})
    default = command("verify", "runs/study", cwd=folder)
    assert default.returncode == 0
    assert "is another)" in " ".join(default.stdout.split())
    assert "not checked retrained" in " ".join(default.stdout.split())
    assert command("verify", "runs/study", "--all", cwd=folder).returncode == 1
    monkeypatch.setattr(verify, "environment", lambda: {**here, "python": "3.0", "cores": 1})
    assert command("verify", "runs/study", "--all", cwd=folder).returncode == 0


def test_user_parts_are_run_only_with_trust(tree: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(PART)
    tree["base"]["model"]["activation"] = "straight"
    (tmp_path / "study.yaml").write_text(json.dumps({**tree, "parts": ["own.py"]}))
    assert command("run", "study.yaml", cwd=tmp_path).returncode == 0
    done = command("verify", "runs/study", cwd=tmp_path)
    assert done.returncode == 0
    assert "--trust runs" in " ".join(done.stdout.split())
    done = command("verify", "runs/study", "--all", "--trust", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert "4 of 4 trials" in done.stdout
    (part,) = (tmp_path / "runs/study/parts").rglob("*.py")
    part.write_text(part.read_text() + "\n# changed\n")
    done = command("verify", "runs/study", cwd=tmp_path)
    assert done.returncode == 1
    assert "part file" in " ".join(done.stdout.split())


def test_a_comparison_is_called_again_only_if_asked(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(TRAIN)
    assert command("compare", "mine.py:train", "--seeds", "2", cwd=tmp_path).returncode == 0
    done = command("verify", "runs/train", cwd=tmp_path)
    assert done.returncode == 0
    assert "--call MODULE:FUNCTION" in " ".join(done.stdout.split())
    done = command("verify", "runs/train", "--call", "mine.py:train", "--all", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 of 4 trials" in done.stdout
    done = command("verify", "runs/train", "--call", "mine.py:other", "--all", cwd=tmp_path)
    assert done.returncode == 1
    assert "not the code" in " ".join(done.stdout.split())


def test_user_code_that_gives_other_bits_is_found_and_said_to_be_possible(tmp_path: Path) -> None:
    (tmp_path / "theirs.py").write_text(
        TRAIN.replace("import random", "import os").replace("random.random()", "os.urandom(1)[0]")
    )
    assert command("compare", "theirs.py:train", "--seeds", "2", cwd=tmp_path).returncode == 0
    done = command("verify", "runs/train", "--call", "theirs.py:train", "--all", cwd=tmp_path)
    assert done.returncode == 1
    again = ("verify", "runs/train", "--call", "theirs.py:train", "--all", "--json")
    told = json.loads(command(*again, cwd=tmp_path).stdout)["checks"][-1]["facts"]
    assert {fact["code"] for fact in told} == {"retrained_differs", "own_code_may_differ"}
