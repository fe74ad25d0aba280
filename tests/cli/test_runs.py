"""Runs on the command line: resume, status, report, export."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from commands import gradlab

from gradlab import open_run
from gradlab.cli.running import headline
from gradlab.cli.states import running_lines
from gradlab.spec.yaml_text import dump


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study and its finished run."""
    from gradlab.testing.base import small_tree

    path = tmp_path_factory.mktemp("runs")
    (path / "small.yaml").write_text(dump({**small_tree(), "figures": ["training_loss"]}))
    assert gradlab("run", "small.yaml", cwd=path).returncode == 0
    return path


def test_running_again_reports_what_is_already_done(folder: Path) -> None:
    found = gradlab("run", "small.yaml", "--seeds", "3", "--dry-run", cwd=folder)
    assert "done, 2 " in found.stdout
    assert json.loads(gradlab("run", "small.yaml", "--dry-run", "--json", cwd=folder).stdout)["done"] == 4
    again = gradlab("run", "small.yaml", cwd=folder)
    assert "done, 0 " in again.stderr


def test_status_shows_the_state_of_a_run(folder: Path) -> None:
    found = gradlab("status", "runs/small", cwd=folder)
    assert found.returncode == 0
    assert "4 of 4 trials done, 0 left" in found.stdout
    assert "finished" in found.stdout
    state = json.loads(gradlab("status", "runs/small", "--json", cwd=folder).stdout)
    assert state["finished"]
    assert (state["alive"], state["done"], state["left"], state["running"]) == (False, 4, 0, [])
    missing = gradlab("status", "runs/nothing", cwd=folder)
    assert missing.returncode == 1
    assert "runs/nothing" in missing.stderr
    assert "Traceback" not in missing.stderr


def test_the_report_is_rewritten_from_the_folder_alone(folder: Path) -> None:
    report = folder / "runs/small/report.md"
    before = report.read_text()
    report.unlink()
    found = gradlab("report", "runs/small", cwd=folder)
    assert found.returncode == 0, found.stderr
    assert open_run(folder / "runs/small").answer.split(":")[0] in " ".join(found.stdout.split())
    assert report.read_text() == before


def test_why_shows_the_chain_per_arm_and_tests_only_a_mechanism_that_is_there(folder: Path) -> None:
    found = gradlab("why", "runs/small", cwd=folder)
    assert found.returncode == 0
    assert [line.split()[0] for line in found.stdout.splitlines() if "×" in line or "init" in line][:1] == ["init"]
    told = json.loads(gradlab("why", "runs/small", "--json", cwd=folder).stdout)
    assert told["code"] == "too_few_seeds"
    assert {link["stage"] for link in told["links"]} >= {"gradient", "result"}
    refused = gradlab("why", "runs/small", "--test", cwd=folder)
    assert (refused.returncode, "nothing to test" in refused.stderr) == (2, True)
    assert gradlab("why", "runs/small", "--out", "x", cwd=folder).returncode == 2


def test_a_run_is_found_by_its_name_and_without_one_all_are_listed(folder: Path) -> None:
    assert gradlab("status", "small", cwd=folder).stdout == gradlab("status", "runs/small", cwd=folder).stdout
    assert "training_loss" in gradlab("figure", "small", cwd=folder).stdout
    assert gradlab("figure", cwd=folder).stdout == gradlab("status", cwd=folder).stdout
    missing = gradlab("status", "none-such", cwd=folder)
    assert (missing.returncode, "none-such" in missing.stderr) == (1, True)


def test_code_to_audit_without_the_name_of_its_arms_is_told_so(folder: Path) -> None:
    (folder / "arms.py").write_text("ARMS = {}\n")
    refused = gradlab("audit", "arms.py", cwd=folder)
    assert (refused.returncode, "arms.py:ARMS" in refused.stderr) == (2, True)


def test_two_runs_can_be_compared(folder: Path) -> None:
    assert gradlab("run", "small.yaml", "--set", "train.lr=0.02", "--out", "other", cwd=folder).returncode == 0
    found = gradlab("report", "runs/small", "--against", "other", cwd=folder)
    assert "2 settings differ" in found.stdout
    assert "train.lr" in found.stdout
    both = json.loads(gradlab("report", "runs/small", "--against", "other", "--json", cwd=folder).stdout)
    assert both["settings"][0] == {"where": "plain", "path": "train.lr", "first": 0.01, "second": 0.02}


def test_export_writes_to_stdout_or_a_file(folder: Path) -> None:
    csv = gradlab("export", "runs/small", "--to", "csv", "--table", "trials", cwd=folder)
    assert len(csv.stdout.splitlines()) == 5
    gradlab("export", "runs/small", "--to", "parquet", "--table", "layers", "--out", "layers.parquet", cwd=folder)
    assert set(pd.read_parquet(folder / "layers.parquet")["group"]) == {"plain", "residual"}
    assert r"\toprule" in gradlab("export", "runs/small", "--to", "latex", cwd=folder).stdout
    wrong = gradlab("export", "runs/small", "--to", "xlsx", cwd=folder)
    assert wrong.returncode == 2
    assert "accepted: csv, parquet, json, latex" in wrong.stderr


@pytest.mark.slow
def test_force_moves_the_old_run_aside_and_names_its_new_place(folder: Path) -> None:
    gradlab("run", "small.yaml", "--out", "mine", cwd=folder)
    found = gradlab("run", "small.yaml", "--out", "mine", "--force", cwd=folder)
    assert found.returncode == 0
    assert "mine~1" in found.stderr
    assert (folder / "mine~1/report.md").is_file()


@pytest.mark.slow
def test_the_executor_does_not_change_the_hash(folder: Path) -> None:
    words = [("--executor", "inline"), ("--executor", "pool", "-j", "2"), ("--executor", "processes", "-j", "2")]
    found = [gradlab("run", "small.yaml", "--json", "--out", f"by{n}", *w, cwd=folder) for n, w in enumerate(words)]
    assert len({json.loads(each.stdout)["hash"] for each in found}) == 1
    wrong = gradlab("run", "small.yaml", "--executor", "ray", cwd=folder)
    assert wrong.returncode == 2
    assert "accepted: inline, pool, processes" in wrong.stderr


@pytest.mark.shipped
def test_progress_on_a_terminal_shows_counts_rate_and_losses(tree: dict[str, Any], tmp_path: Path) -> None:
    """In a pseudo-terminal, as a user sees it."""
    tree["base"]["train"] |= {"engine": "reference", "steps": 8000}
    (tmp_path / "small.yaml").write_text(dump({**tree, "figures": []}))
    code = "import pty, sys; sys.exit(pty.spawn([sys.executable, '-m', 'gradlab', 'run', 'small.yaml', '--live']) >> 8)"
    found = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stdout
    assert "of 4 trials, " in found.stdout
    assert "running" in found.stdout
    assert "per second" in found.stdout
    assert re.search(r"(plain|residual) · seed \d: step ", found.stdout)
    assert ", loss 0." in found.stdout


def test_the_progress_headline_lists_counts_rate_and_time_left() -> None:
    seen = {"planned": 40, "done": 12, "failed": 1, "diverged": 2, "per_second": 3.21, "seconds_left": 3725.0}
    running = [{"name": "plain · seed 3", "steps": 1200, "of": 5000, "loss": "nan", "seconds": 2.2}]
    assert headline({**seen, "running": running}) == (
        "13 of 40 trials, 1 running, 2 diverged, 1 failed, 3.2 per second, 1:02:05 left"
    )
    assert running_lines(running) == ["plain · seed 3: step 1,200 of 5,000, loss NaN, 2 s"]
    assert headline({**seen, "failed": 0, "diverged": 0, "per_second": None, "seconds_left": None, "running": []}) == (
        "12 of 40 trials"
    )


def test_a_collection_runs_its_studies_one_after_the_other(tmp_path: Path) -> None:
    shown = gradlab("run", "scaling", "--dry-run", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.count(" trials, ") == 5
    planned = json.loads(gradlab("run", "scaling", "--dry-run", "--json", cwd=tmp_path).stdout)
    assert [each["study"] for each in planned["studies"]] == [
        "scaling-width", "scaling-depth", "scaling-init", "scaling-schedule", "scaling-batch",
    ]  # fmt: skip
    assert "\n  scaling " in gradlab("list", cwd=tmp_path).stdout
    refused = gradlab("run", "scaling", "--out", "here", cwd=tmp_path)
    assert refused.returncode == 2
    assert "own folder" in refused.stderr
    assert "a collection" in gradlab("show", "scaling", cwd=tmp_path).stderr
