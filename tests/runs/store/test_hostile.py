"""Run folders that somebody else has written: every reader ends with a result or a typed error that names the file."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from commands import gradlab as command
from hostile_runs import (
    HUGE,
    KINDS,
    harm_json,
    harm_table,
    make_runs,
    read_all,
    rewrite_table,
    sealed_any,
    write_entries,
    write_watch,
)

import gradlab
from gradlab.errors import StoreError
from gradlab.runs.store.files import KEY, Lock
from gradlab.runs.store.tables import schemas, tables_of
from gradlab.spec.stored import read_json
from gradlab.web.runs import Runs


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return make_runs(tmp_path_factory.mktemp("made"))


@pytest.fixture
def run(made: dict[str, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(made["deep"], tmp_path / "deep"))


def rewrite_json(path: Path, change: Any) -> None:
    tree = json.loads(path.read_bytes())
    tree.pop(KEY)
    change(tree)
    path.write_bytes(sealed_any(tree))


# ---------------------------------------------------------------------- generated


def mutate(made: dict[str, Path], folder: Path, count: int, seed: int) -> dict[str, int]:
    """Harm a copy of a run, read it in every way, and repeat; counts how the readers ended."""
    ends = {"result": 0, "error": 0}
    for number in range(count):
        rng = random.Random(f"{seed} {number}")
        kind = rng.choice(KINDS)
        run = Path(shutil.copytree(made[kind], folder / kind))
        told = (harm_table if number % 2 else harm_json)(run, rng)
        try:
            for _, error in read_all(run):
                ends["result" if error is None else "error"] += 1
        except Exception as error:
            raise AssertionError(f"case {number} of {seed}, {kind}: {told}") from error
        shutil.rmtree(run)
    return ends


def test_mutated_tables_and_json_give_a_result_or_a_typed_error(
    made: dict[str, Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ends = mutate(made, tmp_path, 16, seed=3)
    assert ends["result"]
    assert ends["error"]
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_thousands_of_mutated_tables_and_json_give_a_result_or_a_typed_error(
    seed: int, made: dict[str, Path], tmp_path: Path, capfd: pytest.CaptureFixture[str], record_property: Any
) -> None:
    record_property("ends", mutate(made, tmp_path, 500, seed=100 + seed))
    assert "Traceback" not in capfd.readouterr().err


# ---------------------------------------------------------------------- tables


def test_what_is_written_has_the_declared_schema() -> None:
    for name, table in tables_of(()).items():
        declared = schemas()[name]
        assert [n for n in table.column_names if n in declared.names] == declared.names, name


HARMS: dict[str, tuple[str, Any, str]] = {
    "dropped": ("trials", lambda t: t.drop_columns(["seed"]), "'seed' is missing"),
    "renamed": ("layers", lambda t: t.rename_columns([*t.column_names[:-1], "worth"]), "'value' is missing"),
    "text for numbers": ("curves", lambda t: _set(t, "step", pa.array(["x"] * t.num_rows)), "'step' holds string"),
    "a metric of lists": ("trials", lambda t: _set(t, "final_loss", pa.array([[1.0]] * t.num_rows)), "'final_loss'"),
    "no value": ("curves", lambda t: _set(t, "value", pa.nulls(t.num_rows, pa.float64())), "'value' has rows without"),
    "a status of its own": ("trials", lambda t: _set(t, "status", pa.array(["won"] * t.num_rows)), "'won'"),
    "a layer without end": ("layers", lambda t: _set(t, "layer", pa.array([2**62] * t.num_rows)), "'layer' holds"),
    "a step before the first": ("layers", lambda t: _set(t, "step", pa.array([-1] * t.num_rows)), "'step' holds -1"),
    "twice": ("curves", lambda t: t.append_column("value", t["value"]), "'value' is there twice"),
    "more": ("curves", lambda t: t.append_column("also", t["value"]), "'also' does not belong"),
}


def _set(table: Any, column: str, values: Any) -> Any:
    return table.set_column(table.column_names.index(column), column, values)


@pytest.mark.parametrize("harm", HARMS)
def test_a_table_that_does_not_fit_its_schema_is_named_and_the_rest_of_the_run_is_read(
    harm: str, made: dict[str, Path], tmp_path: Path
) -> None:
    run = Path(shutil.copytree(made["tuned"], tmp_path / "tuned"))
    name, change, words = HARMS[harm]
    before = len(gradlab.open_run(run).trials())
    chunk = sorted((run / "results").iterdir())[-1]
    rewrite_table(chunk, name, change)
    result = gradlab.open_run(run)
    assert any(f"{name}.parquet is damaged" in note and words in note for note in result.notes), result.notes
    assert result.report()
    assert len(result.trials()) < before
    assert gradlab.status(run).done == (8 if name == "trials" else 12)  # its tuning trials are in other chunks
    found = gradlab.verify(run, sample=0)
    assert any(words in finding for finding in found.findings)


def test_a_value_that_the_schema_allows_is_no_damage(run: Path) -> None:
    rewrite_table(run / "results/000001", "layers", lambda t: t.slice(0, 0))
    assert gradlab.open_run(run).notes == ()


@pytest.mark.parametrize("name", ["trials", "curves", "layers"])
def test_columns_in_another_order_are_read_in_ours(name: str, run: Path) -> None:
    before = gradlab.open_run(run).arrow(name)
    rewrite_table(run / "results/000001", name, lambda t: t.select(t.column_names[::-1]))
    result = gradlab.open_run(run)
    assert result.notes == ()
    assert result.arrow(name).equals(before.select(result.arrow(name).column_names))
    assert result.report()


# ---------------------------------------------------------------------- JSON


@pytest.mark.parametrize(
    ("name", "change", "field"),
    [
        ("audit.json", lambda t: t["table"][0].update(cells="none"), "table.1.cells"),
        ("audit.json", lambda t: t.update(undeclared=[{"a": 1}]), "undeclared.1"),
        ("environment.json", lambda t: t.update(packages=[1]), "packages"),
        ("microworld.json", lambda t: t["frames"][0][0].update(delta=[[1]]), "frames.1.1.delta"),
        ("microworld.json", lambda t: t.update(seed=HUGE), "seed"),
        ("microworld.json", lambda t: t["frames"][1][0].update(signal=[[1.0]]), "signal"),
        ("microworld.json", lambda t: t.update(arms=["plain", "nobody"]), "nobody"),
    ],
)
def test_a_file_beside_the_results_that_does_not_fit_its_model_is_named_with_the_field(
    name: str, change: Any, field: str, run: Path
) -> None:
    rewrite_json(run / name, change)
    result = gradlab.open_run(run)
    assert any(f"{name} is damaged" in note and field in note for note in result.notes), result.notes
    assert result.report()
    assert len(result.trials()) == 4


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda t: t["groups"][0]["cost"].update(layers=[1]), "groups.1.cost.layers"),
        (lambda t: t.update(seeds=[HUGE]), "seeds.1"),
        (lambda t: t.update(study=None), "study"),
    ],
)
def test_a_plan_that_does_not_fit_its_model_is_a_typed_error_with_the_field(change: Any, field: str, run: Path) -> None:
    rewrite_json(run / "plan.json", change)
    with pytest.raises(StoreError, match=f"plan.json is damaged: '{field}'"):
        gradlab.open_run(run)


def test_an_entry_of_the_ledger_that_does_not_fit_its_kind_is_named_and_passed_over(run: Path) -> None:
    path = run / "ledger.jsonl"
    entries = [json.loads(line) for line in path.read_bytes().splitlines()]
    number = next(n for n, entry in enumerate(entries, 1) if entry["kind"] == "trials")
    entries[number - 1]["data"]["trials"] = [[1, None]]
    write_entries(path, entries)
    found = gradlab.verify(run, sample=0)
    assert any(f"line {number} does not have the shape of a 'trials' entry" in words for words in found.findings)


def test_the_progress_of_a_living_process_is_believed_only_if_it_is_one(run: Path) -> None:
    lock = Lock.take(run)
    try:
        for text in ('{"running": [1]}', '{"running": {"a": 1}}', '{"per_second": "fast"}', "[", '{"running": [{}]}'):
            (run / "progress.json").write_text(text)
            found = gradlab.status(run)
            assert (found.alive, found.running, found.per_second) == (True, (), None)
    finally:
        lock.release()


@pytest.mark.parametrize("text", ['"\\ud800"', "NaN", "[-Infinity]", "[" * 100_000, "1" * 5000, '{"a": "\\udfff x"}'])
def test_json_that_cannot_be_written_again_is_not_read(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_json(text.encode())
    assert read_json(b'["\\ud83d\\ude00"]') == ["😀"]


# ---------------------------------------------------------------------- folders


def test_a_damaged_run_does_not_hide_the_others_in_the_labs_list(made: dict[str, Path], tmp_path: Path) -> None:
    for kind in ("deep", "code", "tuned"):
        shutil.copytree(made[kind], tmp_path / kind)
    rewrite_table(tmp_path / "deep/results/000001", "trials", lambda t: t.drop_columns(["digest"]))
    rewrite_json(tmp_path / "tuned/plan.json", lambda tree: tree.update(groups=[1]))
    runs = Runs(tmp_path)
    try:
        listed = {each["id"]: each for each in runs.listing()["runs"]}
    finally:
        runs.close()
    assert listed["code"]["done"] == 4
    assert listed["deep"]["damaged"]


def test_something_foreign_among_the_results_is_named_and_passed_over(run: Path, tmp_path: Path) -> None:
    file, link, folder = (run / "results" / name for name in ("000007", "000008", "000009"))
    file.write_text("not mine")
    link.symlink_to(link)
    (folder / "chunk.json").mkdir(parents=True)
    status = gradlab.status(run)
    assert status.done == 4
    assert command("report", "deep", "--format", "md", cwd=tmp_path).returncode == 0
    findings = gradlab.verify(run, sample=0).findings
    for place in (file, link, folder):
        assert any(place.name in line for line in status.damaged)
        assert any(place.name in finding for finding in findings)


def test_a_run_with_a_foreign_file_among_its_results_is_continued(tmp_path: Path) -> None:
    from gradlab.testing.base import small_tree

    gradlab.run(small_tree(), out=tmp_path / "run", executor="inline", figures=False, seeds=1)
    (tmp_path / "run/results/000002").write_text("not mine")
    result = gradlab.run(small_tree(), out=tmp_path / "run", executor="inline", figures=False, seeds=2)
    assert len(result.trials()) == 4


# ---------------------------------------------------------------------- a watch that was killed


def test_the_watch_of_a_killed_process_says_what_it_is_and_gives_its_numbers(tmp_path: Path) -> None:
    folder = write_watch(tmp_path / "watch")
    before = sorted(folder.iterdir())
    done = command("verify", "watch", cwd=tmp_path)
    assert done.returncode == 1
    assert "watch on the disk" in done.stderr
    assert "gradlab report" in done.stderr
    for table, rows in (("curves", 3), ("layers", 12)):
        done = command("export", "watch", "--to", "csv", "--table", table, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert len(done.stdout.splitlines()) == rows + 1
    assert sorted(folder.iterdir()) == before
    assert command("report", "watch", cwd=tmp_path).returncode == 0
    assert command("verify", str(Path("watch/run")), cwd=tmp_path).returncode == 0


@pytest.mark.parametrize(
    "line", ['{"step": "x"}', '{"step": 1, "layers": 5}', "[1]", '{"step": 1, "scalars": {"loss": {"x": 1}}}', "{"]
)
def test_a_line_of_a_watch_that_does_not_fit_is_named(line: str, tmp_path: Path) -> None:
    path = write_watch(tmp_path / "watch") / "watch.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:2], line, *lines[2:]]))
    for words in (("status", "watch"), ("report", "watch"), ("export", "watch", "--to", "csv")):
        done = command(*words, cwd=tmp_path)
        assert done.returncode == 1
        assert "watch.jsonl is damaged: line 3" in done.stderr
