"""What TensorBoard, MLflow and W&B read back is what `gradlab export --to csv` writes."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import math
import time
from pathlib import Path
from typing import Any

import pytest
from commands import gradlab as command
from diverging import diverging_tree
from wandb_file import read_records

import gradlab
from gradlab.errors import InvalidInput
from gradlab.parts import BUILT_IN
from gradlab.runs.executors import base as executors
from gradlab.trackers.mlflow import with_plain_names

TRACKERS = ("tensorboard", "mlflow", "wandb")
LARGEST = 1.7976931348623157e308
Numbers = dict[tuple[str, int, str], list[tuple[int, float]]]
"""(group, seed, name) -> (step, value) in order of steps."""


def needs(name: str) -> pytest.MarkDecorator:
    missing = importlib.util.find_spec(name) is None
    return pytest.mark.skipif(missing, reason=f"needs the extra: pip install 'gradlab[{name}]'")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of which some trials diverged."""
    out = tmp_path_factory.mktemp("tracked") / "run"
    layer = {"text": "δ is not 0", "metric": "delta_l2", "arms": "tame", "at": {"layer": 1, "step": "end"}}
    tree = {**diverging_tree(), "claims": [{**layer, "op": ">", "value": 0.0}]}
    result = gradlab.run(tree, out=out, executor="inline", figures=False)
    assert result.measured.counts()["diverged"] == 2
    return out


def read_csv(run: Path, table: str) -> list[dict[str, str]]:
    done = command("export", str(run), "--to", "csv", "--table", table, cwd=run.parent)
    assert done.returncode == 0
    return list(csv.DictReader(io.StringIO(done.stdout)))


def expected(run: Path) -> Numbers:
    """Curves and layer measures, from the CSV."""
    found: Numbers = {}
    for row in read_csv(run, "curves"):
        key = row["group"], int(row["seed"]), row["metric"]
        found.setdefault(key, []).append((int(row["step"]), float(row["value"])))
    for row in read_csv(run, "layers"):
        key = row["group"], int(row["seed"]), f"layers/{row['measure']}/layer {row['layer']}"
        found.setdefault(key, []).append((int(row["step"]), float(row["value"])))
    assert any(not math.isfinite(value) for series in found.values() for _, value in series)
    return {key: sorted(series) for key, series in found.items()}


def final(run: Path) -> dict[tuple[str, int], dict[str, float]]:
    """Metrics of every trial, from the CSV; missing ones are absent."""
    words = ("trial", "group", "seed", "status", "error", "seconds", "digest")
    return {
        (row["group"], int(row["seed"])): {n: float(v) for n, v in row.items() if n not in words and v != ""}
        for row in read_csv(run, "trials")
    }


def same(found: Any, wanted: Any) -> bool:
    """Equal, where NaN equals NaN."""
    return repr(found) == repr(wanted)


@pytest.mark.trackers
@needs("tensorboard")
def test_tensorboard_reads_back_every_number(run: Path, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    written = gradlab.export(run, "tensorboard", tmp_path)
    assert (written.trials, written.groups, written.studies) == (4, 2, 1)
    found: Numbers = {}
    metrics: dict[tuple[str, int], dict[str, float]] = {}
    for folder in tmp_path.glob("*/seed *"):
        group, seed = folder.parent.name, int(folder.name.split()[1])
        reader = EventAccumulator(str(folder), size_guidance={"tensors": 0})
        reader.Reload()
        tags = [t for t in reader.Tags()["tensors"] if t not in ("status", "error") and not t.startswith("_hparams_")]
        for tag in tags:
            series = [(event.step, float(make_ndarray(event.tensor_proto).item())) for event in reader.Tensors(tag)]
            if tag.startswith("final/"):
                metrics.setdefault((group, seed), {})[tag.removeprefix("final/")] = series[0][1]
            else:
                found[group, seed, tag] = series
    assert same(sorted(found.items()), sorted(expected(run).items()))
    assert same({k: sorted(v.items()) for k, v in sorted(metrics.items())}, sorted_metrics(run))
    for word in ("mean", "low", "high"):
        reader = EventAccumulator(str(tmp_path / "tame" / word), size_guidance={"tensors": 0})
        reader.Reload()
        assert "loss" in reader.Tags()["tensors"]
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert gradlab.export(run, "tensorboard", tmp_path).trials == 0
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()} == before


def sorted_metrics(run: Path) -> dict[tuple[str, int], list[tuple[str, float]]]:
    return {key: sorted(values.items()) for key, values in sorted(final(run).items())}


@pytest.mark.trackers
@needs("mlflow")
@pytest.mark.filterwarnings("ignore")
def test_mlflow_reads_back_every_number(run: Path, tmp_path: Path) -> None:
    from mlflow import MlflowClient

    gradlab.export(run, "mlflow", tmp_path)
    client = MlflowClient(tracking_uri=f"sqlite:///{tmp_path}/mlflow.db")
    (experiment,) = [each for each in client.search_experiments() if each.name != "Default"]

    def runs() -> list[Any]:
        return list(client.search_runs([experiment.experiment_id]))

    first = {each.info.run_id for each in runs()}
    assert len(first) == 4 + 2 + 1
    wanted, metrics = expected(run), final(run)
    for each in runs():
        if "gradlab.trial" not in each.data.tags:
            continue
        group, seed = each.data.tags["gradlab.group"], int(each.data.params["seed"])
        assert each.data.tags["gradlab.status"] == ("diverged" if group == "wild" else "done")
        assert each.data.params["train.lr"] in ("0.01", "1000000.0")
        for (own, number, name), series in wanted.items():
            if (own, number) == (group, seed):
                key = f"curves/{name}" if name in metrics[group, seed] else name
                history = sorted((m.step, m.value) for m in client.get_metric_history(each.info.run_id, key))
                assert same(history, [(step, as_kept(value)) for step, value in series]), (group, seed, name)
        for name, value in metrics[group, seed].items():
            (kept,) = client.get_metric_history(each.info.run_id, name)
            assert same(kept.value, as_kept(value))
    means = [each.data.metrics for each in runs() if each.data.tags.get("gradlab.group") == "tame"]
    assert any("final/delta_l2 layer 1 end/mean" in found for found in means)  # without commas
    (study,) = [each for each in runs() if "gradlab.question" in each.data.tags]
    assert {f.path for f in client.list_artifacts(study.info.run_id)} >= {"report.md", "report.html", "verdicts.json"}
    assert gradlab.export(run, "mlflow", tmp_path).sentence.startswith(f"mlflow: {tmp_path} is up")
    assert {each.info.run_id for each in runs()} == first


def test_names_that_mlflow_refuses_are_made_plain_and_stay_apart() -> None:
    found = with_plain_names({"final/δ, layer 1/mean": 1, "final/δ layer 1/mean": 2, "a//b": 3, "%": 4, "x" * 300: 5})
    assert list(found.values()) == [1, 2, 3, 4, 5]
    assert list(found)[:4] == ["final/δ layer 1/mean", "final/δ layer 1/mean 2", "a/b", "_"]
    assert max(map(len, found)) == 250


def as_kept(value: float) -> float:
    """MLflow stores an infinity as the largest number."""
    return math.copysign(LARGEST, value) if math.isinf(value) else value


@pytest.mark.trackers
@needs("wandb")
@pytest.mark.filterwarnings("ignore")
def test_wandb_reads_back_every_number(run: Path, tmp_path: Path) -> None:
    gradlab.export(run, "wandb", tmp_path)
    files = sorted(tmp_path.glob("wandb/offline-run-*/run-*.wandb"))
    assert len(files) == 4 + 2 + 1
    found: Numbers = {}
    metrics: dict[tuple[str, int], dict[str, float]] = {}
    for path in files:
        config, history, summary = read_offline(path)
        if "seed" not in config:
            continue
        group = "wild" if config["train.lr"] > 1 else "tame"
        for row in history:
            for name, value in row.items():
                if not name.startswith("_"):
                    found.setdefault((group, config["seed"], name), []).append((row["_step"], float(value)))
        metrics[group, config["seed"]] = summary
    assert same(sorted(found.items()), sorted(expected(run).items()))
    for key, wanted in final(run).items():
        assert same({name: float(metrics[key][name]) for name in wanted}, wanted)
    assert gradlab.export(run, "wandb", tmp_path).trials == 0
    assert sorted(tmp_path.glob("wandb/offline-run-*/run-*.wandb")) == files


def read_offline(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]], dict[str, Any]]:
    """Config, history and summary of an offline file."""
    config: dict[str, Any] = {}
    history: list[dict[str, Any]] = []
    summary: dict[str, Any] = {}
    for record in read_records(path):
        items = {
            "run": lambda r=record: r.run.config.update,
            "config": lambda r=record: r.config.update,
            "history": lambda r=record: r.history.item,
            "summary": lambda r=record: r.summary.update,
        }.get(record.WhichOneof("record_type"), list)()
        row = {(item.key or "/".join(item.nested_key)): json.loads(item.value_json) for item in items}
        if record.WhichOneof("record_type") == "history":
            if record.history.step.num and "_step" not in row:
                row["_step"] = record.history.step.num
            history.append({"_step": 0, **row})
        elif record.WhichOneof("record_type") == "summary":
            summary.update(row)
        else:
            config.update(row)
    return config, history, summary


@pytest.mark.trackers
@pytest.mark.parametrize("name", [pytest.param(name, marks=needs(name)) for name in TRACKERS])
@pytest.mark.filterwarnings("ignore")
def test_trials_are_tracked_while_the_study_runs(name: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    seen: list[bool] = []

    def wait_for_it(results: Any) -> None:
        deadline = time.monotonic() + 60
        while not (there := (out / name).is_dir() and any((out / name).rglob("*"))) and time.monotonic() < deadline:
            time.sleep(0.05)
        seen.append(there)

    gradlab.run(
        diverging_tree(),
        out=out,
        executor="inline",
        figures=False,
        track=[name],
        on_results=wait_for_it,
    )
    assert seen[0]  # while other trials were still to come
    assert len(seen) > 1
    assert gradlab.export(out, name).sentence.startswith(f"{name}: {out / name} is up")


@pytest.mark.parametrize("name", TRACKERS)
def test_a_missing_package_is_named_with_the_command_that_installs_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executors, "find_spec", lambda module: None)
    with pytest.raises(InvalidInput, match=rf"pip install 'gradlab\[{name}\]'"):
        gradlab.run(diverging_tree(), out=tmp_path / "run", track=[name])
    assert not (tmp_path / "run").exists()  # it is said before anything is run


def test_an_unknown_tracker_is_refused_with_what_there_is(run: Path) -> None:
    done = command("export", str(run), "--to", "mlflo", cwd=run.parent)
    assert done.returncode == 2
    assert "did you mean 'mlflow'" in done.stderr
    assert "tensorboard, mlflow, wandb" in done.stderr.replace(
        "mlflow, tensorboard, wandb", "tensorboard, mlflow, wandb"
    )


def test_a_tracker_that_fails_does_not_stop_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from gradlab.trackers.mlflow import Mlflow

    monkeypatch.setattr(Mlflow, "require", lambda self: None)
    result = gradlab.run(diverging_tree(), out=tmp_path / "run", executor="inline", figures=False, track=["mlflow"])
    assert not result.unfinished
    assert "the tracker mlflow failed and is skipped" in capsys.readouterr().err


def test_no_tracker_is_imported_unless_it_is_asked_for() -> None:
    import subprocess
    import sys

    names = ("ray", "submitit", *TRACKERS)
    code = f"import sys, gradlab.api; print([name for name in {names} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert set(TRACKERS) <= set(BUILT_IN.names("tracker"))
