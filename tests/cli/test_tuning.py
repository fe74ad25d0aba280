"""Tuning through the command line: plan, run, status, tables, JSON, export, and the built-in studies."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from commands import gradlab
from rich.console import Console
from tuned import tuned_tree

import gradlab as lab
from gradlab import studies
from gradlab.cli import show
from gradlab.spec.yaml_text import dump


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "study.yaml").write_text(dump({**tuned_tree(), "quick": {"seeds": 1}}))
    return tmp_path


def run_json(folder: Path, *words: str) -> Any:
    return json.loads(gradlab("run", "study.yaml", *words, "--json", cwd=folder).stdout)


def test_a_plan_gives_the_cost_of_both_phases(folder: Path) -> None:
    done = gradlab("run", "study.yaml", "--dry-run", cwd=folder)
    assert "phase 1, tuning: 2 arms × 6 values" in done.stdout
    assert "× 2 seeds = 24 trials" in done.stdout
    assert "phase 2, judging: 4 tuned" in done.stdout
    tuning = run_json(folder, "--dry-run")["tuning"]
    assert len(tuning["trials"]) == 24
    assert tuning["seconds"] > 0
    assert tuning["untuned"]["trials"] == 4
    assert tuning["chosen"] is None


def test_one_command_runs_both_phases_and_a_second_runs_nothing(folder: Path) -> None:
    first = gradlab("run", "study.yaml", cwd=folder)
    assert first.returncode == 0, first.stderr
    assert first.stderr.index("\ntuning: 24 trials") < first.stderr.index("\njudging: ")
    assert "judged at" in first.stdout
    shown = gradlab("report", "runs/tuned", "--tables", cwd=folder)
    for table in lab.open_run(folder / "runs/tuned").story.tables:
        assert table.title in shown.stdout
    again = gradlab("run", "study.yaml", cwd=folder)
    assert "0 are left" in again.stderr
    assert "chosen: plain: lr=" in again.stderr
    assert again.stdout == first.stdout
    status = gradlab("status", "runs/tuned", cwd=folder)
    assert "phase: judging (tuning 24 of 24, judging " in status.stdout
    found = json.loads(gradlab("status", "runs/tuned", "--json", cwd=folder).stdout)
    assert (found["phase"], found["phases"][0]) == ("judging", {"name": "tuning", "planned": 24, "done": 24})
    exported = gradlab("export", "runs/tuned", "--to", "csv", "--table", "tuning", cwd=folder)
    assert exported.stdout.count("\n") == 13
    verified = gradlab("verify", "runs/tuned", cwd=folder)
    assert verified.returncode == 0, verified.stdout
    assert "tuning trials; " in verified.stdout
    assert run_json(folder)["tuning"]["complete"]


@pytest.mark.parametrize("width", [80, 120])
def test_the_tables_fit_the_terminal(width: int) -> None:
    result = lab.run(tuned_tree(), executor="inline")
    for table in result.story.tables:
        text = io.StringIO()
        show.print_table(Console(file=text, width=width), table)
        assert max(map(len, text.getvalue().splitlines())) <= width
        if table.title.startswith("Tuning by"):
            assert "chosen" in text.getvalue()


def test_a_reduced_budget_tunes_less(folder: Path) -> None:
    found = run_json(folder, "--quick")
    assert len(found["tuning"]["tried"]) == 6
    assert found["tuning"]["seeds"] == [-1]


def test_an_unfair_tuning_ends_with_three(folder: Path) -> None:
    done = gradlab("run", "study.yaml", "--set", "arms.plain.train.lr=0.01", cwd=folder)
    assert done.returncode == 3
    assert "not tuned" in done.stdout


def test_a_verdict_at_an_edge_fails_the_check(folder: Path) -> None:
    words = ("--set", "tune.train.lr=[1e-5, 1e-4]", "--seeds", "6", "--check")
    done = gradlab("run", "study.yaml", *words, cwd=folder)
    assert done.returncode == 4
    assert "was tried" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("study", ["identity-tuned", "depth-tuned", "init-tuned"])
def test_the_built_in_studies_run_in_their_reduced_form(study: str, tmp_path: Path) -> None:
    done = gradlab("run", study, "--quick", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / f"runs/{study}-quick/figures/tuning_curves.png").is_file()


def test_reproduce_includes_the_tuned_studies() -> None:
    controlled = {study for writeup in studies.writeups().values() for study in writeup.controlled}
    assert {"depth-tuned", "identity-tuned", "init-tuned"} <= controlled
