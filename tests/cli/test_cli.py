"""The command line as a user sees it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from commands import ENVIRONMENT, gradlab, spawned

from gradlab import open_run
from gradlab.spec.yaml_text import dump


@pytest.fixture
def study(tree: dict[str, Any], tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(dump(tree))
    return path


def test_help_is_a_short_manual(tmp_path: Path) -> None:
    found = spawned("--help", cwd=tmp_path)
    assert found.returncode == 0
    for word in ("A STUDY asks a question", "gradlab run identity", "Exit codes", "check-part", "schema"):
        assert word in found.stdout
    for command in ("run", "list", "show", "schema", "check-part"):
        assert gradlab(command, "--help", cwd=tmp_path).returncode == 0


def test_nothing_in_the_manual_is_cut_at_80_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = gradlab("--help", cwd=tmp_path).stdout
    assert "..." not in shown.split("Commands:")[1]
    assert [line for line in shown.splitlines() if len(line) > 80] == []


def test_run_shows_the_answer_and_writes_a_folder(tree: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(dump({**tree, "figures": ["training_loss"]}))
    found = spawned("run", "small.yaml", cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    result = open_run(tmp_path / "runs/small")
    assert result.answer.split(":")[0] in " ".join(found.stdout.split())
    assert result.story.fairness in " ".join(found.stdout.split())
    assert len(found.stdout.splitlines()) + len(found.stderr.splitlines()) <= 15
    assert "2 groups × 2 seeds = 4 trials" in found.stderr
    assert "runs/small/report.html" in found.stderr
    assert (tmp_path / "runs/small/figures/overview.png").is_file()
    assert "run small.yaml" in (tmp_path / "runs/small/report.md").read_text()


def test_json_is_one_object_on_stdout(study: Path, tmp_path: Path) -> None:
    found = gradlab(
        "run", "small.yaml", "--json", "--seeds", "3", "--set", "train.steps=5", "--out", "here", cwd=tmp_path
    )
    result = json.loads(found.stdout)
    assert result["study"] == "small"
    assert result["run"] == "here"
    assert result["trials"] == {"done": 6, "failed": 0, "diverged": 0}
    assert {"mean", "low", "high", "n"} <= set(result["groups"][0]["metrics"]["final_loss"])
    assert [group["name"] for group in result["groups"]] == ["plain", "residual"]


def test_json_has_no_nan(study: Path, tmp_path: Path) -> None:
    words = (
        "--set",
        "train.lr=1e6",
        "--set",
        "train.optimizer=sgd",
        "--set",
        "train.steps=60",
        "--set",
        "model.skip=identity",
    )
    found = gradlab("run", "small.yaml", "--json", *words, cwd=tmp_path)
    result = json.loads(found.stdout, parse_constant=lambda name: pytest.fail(name))
    assert result["trials"]["diverged"] == 4


def test_dry_run_shows_plan_and_cost_and_writes_nothing(study: Path, tmp_path: Path) -> None:
    found = gradlab("run", "small.yaml", "--dry-run", cwd=tmp_path)
    assert "4 trials" in found.stdout
    assert "residual: model.skip=identity; 60 parameters, 20 steps" in found.stdout
    plan = json.loads(gradlab("run", "small.yaml", "--dry-run", "--json", cwd=tmp_path).stdout)
    assert len(plan["trials"]) == 4
    assert {"flops", "bytes", "seconds"} <= set(plan)
    assert not (tmp_path / "runs").exists()


@pytest.mark.shipped
def test_quick_runs_in_a_separate_folder(tmp_path: Path) -> None:
    found = gradlab("run", "gradflow", "--quick", "--seeds", "5", cwd=tmp_path)
    assert found.returncode == 0
    assert "reduced budget" in found.stderr
    assert (tmp_path / "runs/gradflow-quick/report.md").is_file()


def test_list_show_and_schema_print_studies(tmp_path: Path) -> None:
    assert "identity" in gradlab("list", cwd=tmp_path).stdout
    assert "leaky_relu" in gradlab("list", "--parts", cwd=tmp_path).stdout
    assert json.loads(gradlab("list", "--json", cwd=tmp_path).stdout)["studies"]["gradflow"]
    shown = gradlab("show", "identity", cwd=tmp_path).stdout
    (tmp_path / "copy.yaml").write_text(shown)
    assert gradlab("run", "copy.yaml", "--dry-run", cwd=tmp_path).returncode == 0
    resolved = json.loads(gradlab("show", "identity", "--resolved", "--json", cwd=tmp_path).stdout)
    assert resolved["plain"]["model"]["width"] == 64
    assert "scale_on: all" in gradlab("show", "identity", "--resolved", cwd=tmp_path).stdout
    assert json.loads(gradlab("schema", cwd=tmp_path).stdout)["title"] == "Study"
    assert gradlab("--version", cwd=tmp_path).stdout.startswith("gradlab ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "idenity"), "did you mean 'identity'?"),
        (("run", "nowhere.yaml"), "nowhere.yaml: No such file"),
        (("run", "small.yaml", "--set", "train.lr=-1"), "--set train.lr=-1: must be above 0, not -1"),
        (("run", "small.yaml", "--set", "nonsense"), "path=value"),
        (("run", "small.yaml", "--seeds", "0"), "--seeds"),
        (("run", "small.yaml", "--quick"), "has no reduced budget"),
        (("run", "."), "is a folder"),
        (("run",), "STUDY"),
        (("fly",), "fly"),
        (("show", "nothing"), "accepted: batch-norm-explodes, depth, "),
        (("check-part", "nowhere.py"), "nowhere.py"),
    ],
)
def test_a_user_error_is_exit_code_2_without_a_traceback(
    words: tuple[str, ...], message: str, study: Path, tmp_path: Path
) -> None:
    found = gradlab(*words, cwd=tmp_path)
    assert found.returncode == 2, found.stderr
    assert message in found.stderr
    assert "Traceback" not in found.stderr
    assert found.stdout == ""
    assert not (tmp_path / "runs").exists()


def test_a_folder_that_cannot_be_used_is_exit_code_1(study: Path, tmp_path: Path) -> None:
    found = gradlab("run", "small.yaml", "--out", ".", cwd=tmp_path)
    assert found.returncode == 1
    assert "not a run" in found.stderr
    assert "Traceback" not in found.stderr


def test_a_folder_name_that_is_too_long_is_exit_code_1(study: Path, tmp_path: Path) -> None:
    found = gradlab("run", "small.yaml", "--out", "x" * 300, cwd=tmp_path)
    assert found.returncode == 1
    assert "too long" in found.stderr
    assert "Traceback" not in found.stderr


def test_check_part_reports_every_check(tmp_path: Path) -> None:
    part = tmp_path / "swishy.py"
    part.write_text(
        "import numpy as np\nfrom gradlab.network import Activation\n\n"
        "class Softer(Activation):\n    '''f(x) = log(1 + eˣ).'''\n    name = 'softer'\n"
        "    def forward(self, x): return np.logaddexp(x, 0)\n"
        "    def slope(self, x, y): return (1 - np.exp(-y)).astype(x.dtype)\n"
    )
    found = gradlab("check-part", "swishy.py", cwd=tmp_path)
    assert found.returncode == 0, found.stdout
    assert "activation softer" in found.stdout
    assert "FAIL" not in found.stdout
    part.write_text(part.read_text().replace("1 - np", "1 + np"))
    found = gradlab("check-part", "swishy.py", cwd=tmp_path)
    assert found.returncode == 1
    assert "FAIL slope is" in found.stdout
    assert any(row["problem"] for row in json.loads(gradlab("check-part", "swishy.py", "--json", cwd=tmp_path).stdout))


def test_ctrl_c_keeps_finished_trials_and_exits_130(tree: dict[str, Any], tmp_path: Path) -> None:
    tree["base"]["train"]["steps"] = 400
    tree["seeds"] = 500
    (tmp_path / "long.yaml").write_text(dump(tree))
    process = subprocess.Popen(
        [sys.executable, "-m", "gradlab", "run", "long.yaml", "--json"],
        cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # some parents ignore it
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not any((tmp_path / "runs/long/results").glob("*/chunk.json")):  # until a trial is committed
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    result = json.loads(out)
    assert result["unfinished"]
    assert 0 < result["trials"]["done"] < 1000
    assert (tmp_path / "runs/long/report.md").is_file()
    assert "Traceback" not in err
