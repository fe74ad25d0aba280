from __future__ import annotations

import json
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import gradlab
from gradlab.errors import StoreError
from gradlab.execute.base import TrialResult
from gradlab.store import atomic, tables
from gradlab.store.folder import RunFolder
from gradlab.trial.outcome import Curve, LayerTable, Outcome

SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, 1.5]


def odd_result(tree: dict[str, Any]) -> TrialResult:
    trial = gradlab.dry_run(tree).trials[0]
    values = np.array(SPECIAL)
    table = LayerTable(np.arange(7), np.ones(7, int), ("m",) * 7, values)
    metrics = {"nan": math.nan, "inf": math.inf, "ninf": -math.inf, "missing": None, "number": 2}
    return TrialResult(trial, Outcome("diverged", metrics, (Curve("loss", np.arange(7), values),), table, values))


def same(a: float, b: float) -> bool:
    return np.float64(a).tobytes() == np.float64(b).tobytes() or (math.isnan(a) and math.isnan(b))


def test_nan_infinities_and_missing_survive_parquet_and_json_distinctly(tree: dict[str, Any], tmp_path: Path) -> None:
    """Promise 6."""
    folder = RunFolder.start(tmp_path / "run", gradlab.load(tree), {})
    folder.write_results([odd_result(tree)])
    row = pq.read_table(folder.path / "trials.parquet").to_pylist()[0]
    assert math.isnan(row["nan"])
    assert (row["inf"], row["ninf"], row["missing"], row["number"]) == (math.inf, -math.inf, None, 2.0)
    for name in ("curves", "layers"):
        values = pq.read_table(folder.path / f"{name}.parquet")["value"].to_pylist()
        assert all(same(a, b) for a, b in zip(values, SPECIAL, strict=True))
    from gradlab.spec.canonical import plain_json

    text = json.dumps(plain_json(dict(odd_result(tree).outcome.metrics)), allow_nan=False)
    assert json.loads(text) == {"nan": "nan", "inf": "inf", "ninf": "-inf", "missing": None, "number": 2}


def test_a_runs_folder_holds_study_environment_tables_figures_and_report(tree: dict[str, Any], tmp_path: Path) -> None:
    result = gradlab.run(tree, out=tmp_path / "run")
    found = {str(path.relative_to(tmp_path / "run")) for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert {
        "study.yaml",
        "environment.json",
        "trials.parquet",
        "curves.parquet",
        "layers.parquet",
        "report.md",
    } <= found
    assert "figures/overview.png" in found
    assert "figures/training_loss.svg" in found
    assert not any(name.endswith(".tmp") for name in found)
    assert gradlab.load(tmp_path / "run/study.yaml").groups == gradlab.load(tree).groups
    environment = json.loads((tmp_path / "run/environment.json").read_text())
    assert environment["packages"]["numpy"] == np.__version__
    assert environment["format"] == 1
    assert environment["flush_to_zero"] is False
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "run/layers.parquet"), result.layers())


def test_the_same_study_gives_the_same_tables_but_for_wall_times(tree: dict[str, Any]) -> None:
    a, b = gradlab.run(tree), gradlab.run(tree)
    left, right = (r.curves().query("metric != 'epoch_seconds'").reset_index(drop=True) for r in (a, b))
    pd.testing.assert_frame_equal(left, right, check_exact=True)
    pd.testing.assert_frame_equal(a.layers(), b.layers(), check_exact=True)
    pd.testing.assert_frame_equal(
        a.trials().drop(columns="seconds_per_epoch"), b.trials().drop(columns="seconds_per_epoch"), check_exact=True
    )


def test_a_folder_with_somebodys_other_files_is_refused(tree: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(StoreError, match="not empty and not a run"):
        gradlab.run(tree, out=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_failed_write_leaves_the_old_content_and_no_litter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.md"
    atomic.write_bytes(path, b"old")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match=r"cannot write .*report\.md: No space left"):
        atomic.write_bytes(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["report.md"]


def test_a_place_that_cannot_be_written_is_named(tree: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot make the run's folder .*file/run"):
        gradlab.run(tree, out=tmp_path / "file" / "run")


def test_tables_without_results_have_their_columns() -> None:
    assert tables.layers_table([]).column_names == ["trial", "group", "seed", "step", "layer", "measure", "value"]
    assert tables.curves_table([]).num_rows == 0


def test_a_run_of_another_study_is_moved_aside_and_one_of_the_same_is_replaced(
    tree: dict[str, Any], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    gradlab.run(tree, out=run)
    gradlab.run(tree, out=run)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    gradlab.run({**tree, "figures": ["training_loss"]}, out=run)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "run~1"]
    assert {path.stem for path in (run / "figures").iterdir()} == {"overview", "training_loss"}
    assert (tmp_path / "run~1/report.md").is_file()


def test_a_run_that_dies_leaves_no_old_results_under_a_new_study(tree: dict[str, Any], tmp_path: Path) -> None:
    run = tmp_path / "run"
    gradlab.run(tree, out=run)

    def die(result: Any) -> None:
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        gradlab.run(tree, out=run, on_result=die)
    assert sorted(path.name for path in run.iterdir() if path.is_file()) == [
        "environment.json", "resolved.yaml", "study.yaml",
    ]  # fmt: skip


def test_the_folder_keeps_every_default_and_the_users_parts(tree: dict[str, Any], tmp_path: Path) -> None:
    part = tmp_path / "mine.py"
    part.write_text(
        "from gradlab.optim import Schedule\nclass S(Schedule):\n    'One.'\n    name = 's'\n"
        "    def factor(self, step, horizon): return 1.0\n"
    )
    gradlab.run({**tree, "parts": [str(part)]}, out=tmp_path / "run")
    assert "weight_decay: 0.0" in (tmp_path / "run/resolved.yaml").read_text()
    assert (tmp_path / "run/parts/mine.py").read_text() == part.read_text()


def test_missing_and_nan_differ_in_the_trials_frame(tree: dict[str, Any]) -> None:
    result = gradlab.run(tree)
    odd = replace(result, measured=replace(result.measured, results=(odd_result(tree),)))
    row = odd.trials().iloc[0]
    assert row["missing"] is pd.NA
    assert row["nan"] is not pd.NA
    assert math.isnan(row["nan"])
