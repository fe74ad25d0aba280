"""Runs stored by earlier versions: this version opens, reports, exports and resumes them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from commands import gradlab as command

import gradlab
from gradlab.errors import StoreError

HERE = Path(__file__).parent
RUNS = sorted(path.parent for path in HERE.glob("*/*/plan.json"))
TRIALS = {"finished": 6, "unfinished": 3, "digits": 8, "own-parts": 4, "comparison": 6, "watch": 1}
"""Name -> trials with a result."""


OTHER_NUMERICS = {(version, "digits") for version in ("0.1.0", "format-4", "format-5")}
"""Sets and runs whose engine computes other bits in this version: they are opened, not resumed."""
FIRST = "0.1.0"
"""The oldest set; the others are tested before a release."""


def _version(name: str) -> Any:
    return pytest.param(name, marks=() if name == FIRST else pytest.mark.shipped)


def _run(path: Path) -> Any:
    marks = () if path.parent.name == FIRST else pytest.mark.shipped
    return pytest.param(path, marks=marks, id=f"{path.parent.name}/{path.name}")


@pytest.fixture(params=[_run(path) for path in RUNS])
def run(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of a stored run, in an otherwise empty folder."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(request.param, tmp_path / request.param.name))


def test_every_version_has_every_kind_of_run() -> None:
    kinds = {path.parent.name: set() for path in RUNS}
    for path in RUNS:
        kinds[path.parent.name].add(path.name)
    assert kinds
    assert all(found == set(TRIALS) for found in kinds.values())


def test_a_stored_run_opens_with_all_its_results(run: Path) -> None:
    found = gradlab.status(run)
    assert found.done == TRIALS[run.name]
    assert not found.damaged
    result = gradlab.open_run(run)
    assert len(result.trials()) == TRIALS[run.name]
    assert len(result.curves()) + len(result.layers()) > 0
    assert result.answer
    assert result.unfinished == (run.name == "unfinished")
    assert not [note for note in result.notes if "damaged" in note]


def test_a_stored_run_is_reported_and_exported_by_the_command_line(run: Path) -> None:
    found = command("report", run.name, "--json", cwd=run.parent)
    assert found.returncode == 0, found.stderr
    printed = json.loads(found.stdout)
    assert sum(printed["trials"].values()) >= TRIALS[run.name]
    assert all(group["metrics"] for group in printed["groups"])
    assert (run / "report.html").stat().st_size > 50_000
    assert (run / "report.md").is_file()
    found = command("export", run.name, "--to", "csv", "--table", "trials", cwd=run.parent)
    assert found.returncode == 0, found.stderr
    assert len(found.stdout.splitlines()) == TRIALS[run.name] + 1
    for table in ("summary", "trials", "curves", "layers"):
        words = ("export", run.name, "--to", "parquet", "--table", table, "--out", "out.parquet")
        assert command(*words, cwd=run.parent).returncode == 0
        assert pq.read_table(run.parent / "out.parquet").num_columns > 0
    assert command("export", run.name, "--to", "latex", cwd=run.parent).returncode == 0


@pytest.mark.parametrize("name", ["finished", "unfinished", "digits", "own-parts"])
@pytest.mark.parametrize("version", [_version(name) for name in sorted({path.parent.name for path in RUNS})])
def test_a_stored_run_resumes_without_rerunning_finished_trials(
    version: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Path(shutil.copytree(HERE / version / name, tmp_path / name))
    monkeypatch.chdir(tmp_path)
    shutil.copy(HERE / "own_parts.py", tmp_path)
    before = {row["trial"]: row["digest"] for row in gradlab.open_run(run).arrow("trials").to_pylist()}
    shutil.copy(run / "study.yaml", tmp_path / f"{name}.yaml")
    fresh = []
    try:
        result = gradlab.run(
            f"{name}.yaml", out=run, mixed=True, executor="inline", figures=False, on_results=fresh.extend
        )
    except StoreError as refused:
        assert (version, name) in OTHER_NUMERICS, refused
        assert "other numerics" in str(refused)
        return
    assert (version, name) not in OTHER_NUMERICS
    assert not result.unfinished
    after = {row["trial"]: row["digest"] for row in result.arrow("trials").to_pylist()}
    assert before.items() <= after.items()
    assert len(fresh) == len(after) - len(before)
    assert len(after) == (6 if name == "unfinished" else TRIALS[name])
