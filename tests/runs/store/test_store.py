"""Writing and reading: tables, weights, chunks, the whole folder."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import gradlab
from gradlab.analysis.measured import Measured
from gradlab.errors import StoreError
from gradlab.network.layout import Layout, Slot
from gradlab.report.result import Result
from gradlab.runs.store import files, tables
from gradlab.runs.store.folder import RunFolder
from gradlab.runs.store.records import Chunk, DamagedFile, MemoryChunk, Records, commit
from gradlab.spec.base import plain_json
from gradlab.trials.outcome import Curve, LayerTable, Outcome, Snapshot, TrialResult, digest

SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, 1.5]


def odd_result(tree: dict[str, Any]) -> TrialResult:
    trial = gradlab.plan(tree).trials[0]
    values = np.array(SPECIAL)
    table = LayerTable(np.arange(7), np.ones(7, int), ("m",) * 7, values)
    metrics = {"nan": math.nan, "inf": math.inf, "ninf": -math.inf, "missing": None, "number": 2}
    layout = Layout.of([Slot("layer", 1, "weight", (2, 3), "weights")], 0)
    kept = (Snapshot(0, values[:6], layout, {}), Snapshot(7, -values[:6], layout, {"layer1.running_mean": values}))
    outcome = Outcome("diverged", metrics, (Curve("loss", np.arange(7), values),), table, values, kept)
    return TrialResult(trial, outcome, digest=digest(trial.id, outcome, None))


def same(a: float, b: float) -> bool:
    return np.float64(a).tobytes() == np.float64(b).tobytes() or (math.isnan(a) and math.isnan(b))


def test_nan_infinities_and_missing_survive_parquet_and_json_distinctly(tree: dict[str, Any], tmp_path: Path) -> None:
    """Promise 6."""
    commit(tmp_path / "1", MemoryChunk.of([odd_result(tree)]), tmp_path / "beside")
    row = pq.read_table(tmp_path / "1/trials.parquet").to_pylist()[0]
    assert math.isnan(row["nan"])
    assert (row["inf"], row["ninf"], row["missing"], row["number"]) == (math.inf, -math.inf, None, 2.0)
    for name in ("curves", "layers"):
        for values in (pq.read_table(tmp_path / f"1/{name}.parquet"), Chunk.open(tmp_path / "1").table(name)):
            assert all(same(a, b) for a, b in zip(values["value"].to_pylist(), SPECIAL, strict=True))
    text = json.dumps(plain_json(dict(odd_result(tree).outcome.metrics)), allow_nan=False)
    assert json.loads(text) == {"nan": "nan", "inf": "inf", "ninf": "-inf", "missing": None, "number": 2}


def test_missing_and_nan_differ_in_the_frame_and_in_every_export(tree: dict[str, Any]) -> None:
    records = Records([MemoryChunk.of([odd_result(tree)])])
    result = Result(Measured(gradlab.plan(tree), records), {}, "")
    row = result.trials().iloc[0]
    assert row["missing"] is pd.NA
    assert row["nan"] is not pd.NA
    assert math.isnan(row["nan"])
    (exported,) = json.loads(result.export("json", "trials"))
    assert (exported["nan"], exported["inf"], exported["ninf"], exported["missing"]) == ("nan", "inf", "-inf", None)
    header, line = result.export("csv", "trials").decode().splitlines()
    cells = dict(zip(header.replace('"', "").split(","), line.split(","), strict=True))
    assert (cells["nan"], cells["inf"], cells["ninf"], cells["missing"]) == ("nan", "inf", "-inf", "")


def test_weights_are_read_back_by_step_and_name_and_open_with_plain_safetensors(
    tree: dict[str, Any], tmp_path: Path
) -> None:
    from safetensors.numpy import load_file

    tree["measure"]["weights"] = ["start", 5, "end"]
    result = gradlab.run(tree, out=tmp_path / "run")
    again = gradlab.open_run(tmp_path / "run")
    final = again.weights("residual", 1)
    assert set(final) == {f"layer{n}.{kind}" for n in (1, 2, 3) for kind in ("weight", "bias")}
    assert final["layer2.weight"].shape == (4, 4)
    np.testing.assert_array_equal(final["layer2.weight"], result.weights("residual", 1, 20)["layer2.weight"])
    assert not np.array_equal(again.weights("residual", 1, 5)["layer1.bias"], final["layer1.bias"])
    with pytest.raises(KeyError, match="kept: 0, 5, 20"):
        again.weights("residual", 1, 7)
    with pytest.raises(KeyError, match="no trial"):
        again.weights("residual", 9)
    trial = next(t.id for t in result.measured.trials if (t.group, t.seed) == ("residual", 1))
    files = [load_file(path) for path in (tmp_path / "run/results").glob("*/weights.safetensors")]
    found = [tensors for tensors in files if f"{trial}/20/layer2.weight" in tensors]
    np.testing.assert_array_equal(found[0][f"{trial}/20/layer2.weight"], final["layer2.weight"])


@pytest.mark.parametrize("engine", ["reference", "fused"])
def test_kept_weights_include_the_running_statistics_of_the_norms(engine: str, tree: dict[str, Any]) -> None:
    tree["base"]["train"]["engine"] = engine
    tree["base"]["model"]["norm"] = "batch"
    tree["measure"]["weights"] = ["start", "end"]
    result = gradlab.run(tree, seeds=1)
    start, end = result.weights("plain", 0, 0), result.weights("plain", 0)
    assert np.all(start["layer1.running_mean"] == 0)
    assert np.any(end["layer1.running_mean"] != 0)
    assert np.any(end["layer3.weight"] != start["layer3.weight"])
    assert gradlab.run(tree, seeds=1, overrides={"measure.weights": []}).measured.records.weights("x") == {}


def test_a_diverged_trial_keeps_the_weights_it_ended_with(tree: dict[str, Any]) -> None:
    overrides = {"train.lr": 1e6, "train.optimizer": "sgd", "model.skip": "identity", "train.steps": 60}
    result = gradlab.run(tree, seeds=1, overrides=overrides)
    assert result.measured.counts()["diverged"] == 2
    assert np.abs(result.weights("plain", 0)["layer1.weight"]).max() > 1e30


def test_a_run_folder_holds_study_plan_environment_results_figures_and_report(
    tree: dict[str, Any], tmp_path: Path
) -> None:
    result = gradlab.run({**tree, "figures": ["training_loss"]}, out=tmp_path / "run")
    found = {str(path.relative_to(tmp_path / "run")) for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert {"study.yaml", "resolved.yaml", "plan.json", "environment.json", "report.md"} <= found
    assert {f"results/000001/{name}" for name in ("chunk.json", "trials.parquet", "weights.safetensors")} <= found
    assert "figures/overview.png" in found
    assert "figures/training_loss.svg" in found
    assert not any(name.endswith(".tmp") or "progress" in name or ".writing" in name for name in found)
    assert gradlab.load(tmp_path / "run/study.yaml").groups == gradlab.load(tree).groups
    environment = json.loads((tmp_path / "run/environment.json").read_text())
    assert environment["packages"]["numpy"] == np.__version__
    assert environment["flush_to_zero"] is False
    assert len(result.layers()) > 0


def test_the_tables_can_be_opened_directly_from_the_files(tree: dict[str, Any], tmp_path: Path) -> None:
    """As docs/studies.md shows it for pandas."""
    from glob import glob

    result = gradlab.run(tree, out=tmp_path / "run")
    frames = pd.concat(map(pd.read_parquet, glob(str(tmp_path / "run/results/*/curves.parquet"))))
    ours = result.curves()
    keys = ["trial", "metric", "step"]
    assert list(frames.columns) == list(ours.columns)
    left, right = (f.sort_values(keys).reset_index(drop=True) for f in (frames, ours))
    pd.testing.assert_frame_equal(left, right, check_dtype=False)


def test_the_same_study_gives_the_same_tables_and_hash_but_for_wall_times(tree: dict[str, Any]) -> None:
    a, b = gradlab.run(tree), gradlab.run(tree, workers=1)
    left, right = (r.curves().query("metric != 'epoch_seconds'").reset_index(drop=True) for r in (a, b))
    pd.testing.assert_frame_equal(left, right, check_exact=True)
    pd.testing.assert_frame_equal(a.layers(), b.layers(), check_exact=True)
    times = ["seconds_per_epoch", "seconds"]
    pd.testing.assert_frame_equal(a.trials().drop(columns=times), b.trials().drop(columns=times), check_exact=True)
    assert a.measured.hash == b.measured.hash == a.to_json()["hash"]


def test_a_digest_sees_every_bit_but_no_wall_time(tree: dict[str, Any]) -> None:
    from dataclasses import replace

    outcome = odd_result(tree).outcome
    assert outcome is not None
    timed = replace(outcome, metrics={**outcome.metrics, "seconds_per_epoch": 3.0})
    assert digest("id", timed, None) == digest("id", outcome, None)
    first, last = outcome.snapshots
    changed = [
        replace(outcome, metrics={**outcome.metrics, "number": 2 + 1e-15}),
        replace(outcome, metrics={**outcome.metrics, "missing": math.nan}),
        replace(outcome, curves=(Curve("loss", np.arange(7), np.array([*SPECIAL[:6], 1.5 + 1e-15])),)),
        replace(outcome, curves=(Curve("loss", np.arange(7), np.array([*SPECIAL[:3], -0.0, *SPECIAL[4:]])),)),
        replace(outcome, snapshots=outcome.snapshots[:1]),
        replace(outcome, snapshots=(first, replace(last, running={}))),
        replace(outcome, snapshots=(replace(first, theta=first.theta.astype(np.float32)), last)),
        replace(outcome, layers=replace(outcome.layers, measure=("n",) * 7)),
        replace(outcome, status="done"),
        None,
    ]
    found = {digest("id", other, None) for other in changed} | {digest("other", outcome, None)}
    assert len(found) == len(changed) + 1
    assert digest("id", outcome, None) not in found


def test_a_folder_with_other_files_is_refused(tree: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(StoreError, match="not empty and not a run"):
        gradlab.run(tree, out=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_failed_write_leaves_the_old_content_and_no_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report.md"
    files.write_bytes(path, b"old")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match=r"cannot write .*report\.md: No space left"):
        files.write_bytes(path, b"new")
    assert path.read_bytes() == b"old"
    with pytest.raises(StoreError, match=r"cannot write .*chunk: No space left"):
        files.write_folder(tmp_path / "chunk", {"a": b"a"}, tmp_path / "beside")
    assert [p.name for p in tmp_path.iterdir()] == ["report.md"]


def test_an_unwritable_location_is_reported(tree: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot make the run's folder .*Not a directory"):
        gradlab.run(tree, out=tmp_path / "file" / "run")


def test_tables_without_results_have_their_columns() -> None:
    assert tables.layers_table([]).column_names == ["trial", "group", "seed", "step", "layer", "measure", "value"]
    assert tables.curves_table([]).num_rows == 0
    assert Records([]).trials.num_rows == 0
    assert Records([]).layers().num_rows == 0


def test_the_folder_keeps_every_default_and_the_users_parts(tree: dict[str, Any], tmp_path: Path) -> None:
    part = tmp_path / "mine.py"
    part.write_text(
        "from gradlab.optim import Schedule\nclass S(Schedule):\n    'One.'\n    name = 's'\n"
        "    def factor(self, step, horizon): return 1.0\n"
    )
    gradlab.run({**tree, "parts": [str(part)]}, out=tmp_path / "run")
    assert "weight_decay: 0.0" in (tmp_path / "run/resolved.yaml").read_text()
    assert (tmp_path / "run/parts/0/mine.py").read_text() == part.read_text()
    part.unlink()
    assert gradlab.open_run(tmp_path / "run").measured.counts()["done"] == 4


def test_a_saved_result_is_an_ordinary_run(tree: dict[str, Any], tmp_path: Path) -> None:
    result = gradlab.run(tree)
    path = result.save(tmp_path / "run")
    assert (path.parent / "report.md").read_text() == result.report()
    result.save(tmp_path / "run")
    assert len(list((tmp_path / "run/results").iterdir())) == 1
    again = gradlab.open_run(tmp_path / "run")
    assert again.measured.hash == result.measured.hash
    assert again.answer == result.answer
    pd.testing.assert_frame_equal(again.layers(), result.layers())
    again.save(tmp_path / "copy")
    assert gradlab.status(tmp_path / "copy").hash == result.measured.hash


def test_groups_that_are_the_same_trials_are_trained_once_and_shown_under_both_names(tree: dict[str, Any]) -> None:
    tree["arms"] = {"one": {}, "two": {}, "other": {"model.skip": "identity"}}
    result = gradlab.run(tree)
    assert result.measured.records.trials.num_rows == 4
    assert result.trials().groupby("group").size().to_dict() == {"one": 2, "two": 2, "other": 2}
    frame = result.layers()
    left, right = (frame[frame.group == name].drop(columns="group").reset_index(drop=True) for name in ("one", "two"))
    pd.testing.assert_frame_equal(left, right)


# ---------------------------------------------------------------------- damage


@pytest.fixture
def chunk(tree: dict[str, Any], tmp_path: Path) -> Path:
    commit(tmp_path / "1", MemoryChunk.of([odd_result(tree)]), tmp_path / "beside")
    return tmp_path / "1"


def read_all(path: Path) -> None:
    opened = Chunk.open(path)
    opened.verify()
    for name in tables.NAMES:
        opened.table(name)


@pytest.mark.parametrize("step", [23, pytest.param(1, marks=pytest.mark.slow)])
def test_a_chunk_truncated_at_any_byte_is_reported_as_damaged(chunk: Path, step: int) -> None:
    """Promise 5."""
    for file in sorted(chunk.iterdir()):
        whole = file.read_bytes()
        for length in (*range(0, len(whole), step), len(whole) - 1):
            file.write_bytes(whole[:length])
            with pytest.raises(DamagedFile, match=file.name):
                read_all(chunk)
        file.unlink()
        with pytest.raises(DamagedFile, match=file.name):
            read_all(chunk)
        file.write_bytes(whole)
    read_all(chunk)


@pytest.mark.parametrize("step", [23, pytest.param(1, marks=pytest.mark.slow)])
def test_a_flipped_bit_anywhere_in_a_chunk_is_reported_or_changes_nothing(chunk: Path, step: int) -> None:
    """Promise 5. A flipped bit in the white space of the manifest loses nothing."""
    for file in sorted(chunk.iterdir()):
        whole = file.read_bytes()
        for place in (*range(0, len(whole), step), len(whole) - 1):
            file.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << place % 8)]) + whole[place + 1 :])
            if file.name == "chunk.json" and whole[place : place + 1].isspace():
                continue
            with pytest.raises(DamagedFile, match=file.name):
                read_all(chunk)
        file.write_bytes(whole)
    read_all(chunk)


def test_a_crash_at_any_moment_of_a_commit_leaves_all_or_nothing(
    tree: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Crash(BaseException):
        pass

    plan, result = gradlab.plan(tree), odd_result(tree)
    seen = set()
    for moment in range(200):
        path = tmp_path / str(moment)
        calls = 0

        def counted(function: Any, moment: int = moment) -> Any:
            def call(*values: Any, **options: Any) -> Any:
                nonlocal calls
                calls += 1
                if calls == moment + 1:
                    raise Crash
                return function(*values, **options)

            return call

        with RunFolder.start(path, plan, {}) as folder, monkeypatch.context() as patch:
            for name in ("fsync", "rename", "replace"):
                patch.setattr(os, name, counted(getattr(os, name)))
            try:
                folder.commit([result])
                crashed = False
            except Crash:
                crashed = True
        with RunFolder.start(path, plan, {}) as folder:
            there = folder.records.trials.num_rows
            assert folder.notes == []
        assert not (path / ".writing").exists()
        seen.add((crashed, there))
        if not crashed:
            break
    assert seen == {(True, 0), (True, 1), (False, 1)}
