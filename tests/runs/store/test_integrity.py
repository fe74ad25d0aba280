"""Runs from untrusted sources: opening one executes nothing, and alterations are reported."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commands import gradlab as command

import gradlab
from gradlab.errors import GradlabError, PartError, StoreError
from gradlab.report.markdown import relative_links
from gradlab.report.pictures import draw_files
from gradlab.runs.store import files
from gradlab.runs.store.files import DamagedFile, read_sealed, sealed
from gradlab.runs.store.folder import RunFolder
from gradlab.testing.base import small_tree
from gradlab.trials.outcome import TrialResult

PART = """
import os
from pathlib import Path
from gradlab.network import Activation
from gradlab.report.figures.base import Figure

Path(os.environ.get("GRADLAB_TEST_RAN", os.devnull)).write_text("ran")

class Plain(Activation):
    'f(x) = share x.'
    name = "straight"
    share: float = 1.0
    def forward(self, x): return x.dtype.type(self.share) * x
    def slope(self, x, y): return 0 * x + x.dtype.type(self.share)

class Own(Figure):
    'A figure of the user.'
    name = "own_figure"
    def chart(self, measured): return None
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with parts of its own, audit, micro-world and environment."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "own.py").write_text(PART)
    tree = small_tree(activation={"kind": "straight", "share": 0.9}, depth=5)
    tree |= {"parts": [str(folder / "own.py")], "figures": ["training_loss", "own_figure"], "seeds": 2}
    gradlab.run(tree, out=folder / "run", executor="inline")
    for name in ("report.md", "report.html", "tables.tex", "figures"):
        path = folder / "run" / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return folder / "run"


@pytest.fixture
def run(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the run. Running the code of its parts leaves a trace."""
    monkeypatch.setenv("GRADLAB_TEST_RAN", str(tmp_path / "ran"))
    return Path(shutil.copytree(made, tmp_path / "run"))


def rewrite(run: Path, **changes: Any) -> None:
    plan = json.loads((run / "plan.json").read_bytes())
    (run / "plan.json").write_bytes(sealed({**plan, **changes}))


def hostile(run: Path) -> None:
    """Replace the run's part file by other code."""
    (path,) = (run / "parts").rglob("*.py")
    path.write_text(path.read_text() + "\nPath(os.environ['GRADLAB_TEST_RAN']).write_text('hostile')\n")


# ---------------------------------------------------------------------- nothing is executed


def test_opening_reporting_and_exporting_a_run_executes_none_of_its_code(run: Path, tmp_path: Path) -> None:
    hostile(run)
    result = gradlab.open_run(run)
    assert result.answer
    assert result.measured.plan.groups[0].config.model.activation.parameters == {"share": 0.9}  # type: ignore[union-attr]
    assert len(result.trials()) == 4
    for words in (("status", "run"), ("report", "run", "--json"), ("export", "run", "--to", "csv")):
        done = command(*words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert command("report", "run", "--against", "run", cwd=tmp_path).returncode == 0
    assert not (tmp_path / "ran").exists()
    assert "own\\_figure" in (run / "report.md").read_text()
    assert "trust" in (run / "report.md").read_text()


def test_code_is_loaded_only_with_trust_and_if_its_checksum_matches(run: Path, tmp_path: Path) -> None:
    result = gradlab.open_run(run, trust=True)
    assert result.measured.plan.catalog.executed
    assert not any("--trust" in line for line in result.story.pictures.missing)
    hostile(run)
    with pytest.raises(StoreError, match="its checksum does not match"):
        gradlab.open_run(run, trust=True)
    assert not (tmp_path / "ran").exists() or (tmp_path / "ran").read_text() == "ran"


def test_retraining_the_micro_world_requires_trust(run: Path, tmp_path: Path) -> None:
    done = command("report", "run", "--seed", "1", cwd=tmp_path)
    assert done.returncode == PartError.exit_code
    assert "--trust" in done.stderr
    assert not (tmp_path / "ran").exists()
    done = command("report", "run", "--seed", "1", "--trust", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("place", ["../../outside.py", "/etc/outside.py", "0/../../../outside.py", "link/own.py"])
def test_a_part_outside_the_folder_is_refused(place: str, run: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.py").write_text(PART)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/own.py").write_text(PART)
    (run / "parts/link").symlink_to(tmp_path / "elsewhere")
    entry = json.loads((run / "plan.json").read_bytes())["parts"][0]
    rewrite(run, parts=[{**entry, "file": place}])
    for trust in (False, True):
        with pytest.raises(StoreError, match="not inside the run folder"):
            gradlab.open_run(run, trust=trust)
    assert not (tmp_path / "ran").exists()


# ---------------------------------------------------------------------- alterations are reported


def test_only_an_intact_sealed_object_is_read_back(tmp_path: Path) -> None:
    path, value = tmp_path / "it.json", {"a": [1, 2.5, None, "nan"], "b": {"ü": True}}
    path.write_bytes(sealed(value))
    assert read_sealed(path) == value
    assert read_sealed(tmp_path / "none.json") is None
    for text in ('{"a": 1}', "[1]", "{", "[" * 100_000, '{"a":' * 50_000 + "1" + "}" * 50_000, "\xff"):
        path.write_bytes(text.encode("latin1"))
        with pytest.raises(DamagedFile):
            read_sealed(path)


@pytest.mark.parametrize("name", ["audit.json", "microworld.json", "environment.json"])
@pytest.mark.parametrize("harm", [b"{}", b'{"a": ' * 5000, b"\x00", b'{"format": 4}'])
def test_files_beside_the_results_may_be_damaged(name: str, harm: bytes, run: Path, tmp_path: Path) -> None:
    (run / name).write_bytes(harm)
    result = gradlab.open_run(run)
    assert any(name in note and "damaged" in note for note in result.notes)
    assert len(result.trials()) == 4
    assert command("export", "run", "--to", "csv", cwd=tmp_path).returncode == 0
    assert "is damaged" in result.report()


def test_a_changed_id_is_reported_even_under_a_right_checksum(run: Path) -> None:
    plan = json.loads((run / "plan.json").read_bytes())
    plan["groups"][0]["id"] = plan["groups"][0]["id"].replace("a", "b").replace("1", "2")
    rewrite(run, groups=plan["groups"])
    with pytest.raises(StoreError, match="does not match its content"):
        gradlab.open_run(run)


def read_run(run: Path) -> Any:
    """Return the results of a run and its notes, or the error."""
    try:
        result = gradlab.open_run(run)
        status = gradlab.status(run)
        exported = [result.export("csv", table) for table in ("summary", "trials", "curves", "layers")]
        report = {
            **result.to_json(),
            "environment": result.environment,
            "recording": result.recording and result.recording.to_json(),
        }
        return repr((report, status.hash, status.damaged, exported)), (*result.notes, *status.damaged)
    except GradlabError as error:
        return str(error), (str(error),)


def flip_everywhere(run: Path, flips: int, seed: int) -> dict[str, int]:
    """Flip one bit at a time in any file; every changed result must come with a note about damage."""
    rng = random.Random(seed)
    files = [path for path in sorted(run.rglob("*")) if path.is_file() and path.stat().st_size]
    weights = [min(path.stat().st_size, 4000) for path in files]
    before, notes_before = read_run(run)
    assert notes_before == ()
    seen = {"same": 0, "named": 0}
    for _ in range(flips):
        (path,) = rng.choices(files, weights)
        content = path.read_bytes()
        place = rng.randrange(len(content))
        path.write_bytes(content[:place] + bytes([content[place] ^ (1 << rng.randrange(8))]) + content[place + 1 :])
        now, notes = read_run(run)
        assert now == before or notes, f"bit flipped in {path.relative_to(run)} at {place}: changed in silence"
        seen["named" if notes else "same"] += 1
        path.write_bytes(content)
    return seen


def test_a_flipped_bit_anywhere_in_a_run_is_reported_or_changes_nothing(run: Path) -> None:
    seen = flip_everywhere(run, 40, 0)
    assert seen["named"] > 10


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_two_thousand_bit_flips_change_nothing_silently(run: Path, seed: int) -> None:
    assert flip_everywhere(run, 200, seed)["named"] > 50


# ---------------------------------------------------------------------- folders that change during a run


def test_a_copied_chunk_does_not_duplicate_results(run: Path) -> None:
    before = {table: gradlab.open_run(run).export("csv", table) for table in ("trials", "curves", "layers")}
    (chunk,) = sorted((run / "results").iterdir())[:1]
    shutil.copytree(chunk, run / "results/000077")
    shutil.copytree(chunk, run / "results/²")
    (run / "results/notes").mkdir()
    for table, expected in before.items():
        after = gradlab.open_run(run).export("csv", table)
        assert sorted(after.splitlines()) == sorted(expected.splitlines())
    assert gradlab.status(run).done == 4


def test_a_folder_moved_during_a_run_is_reported(tree: dict[str, Any], tmp_path: Path) -> None:
    def move(results: Any) -> None:
        if (tmp_path / "run").exists():
            (tmp_path / "run").rename(tmp_path / "moved")

    tree |= {"seeds": 40, "figures": []}
    with pytest.raises(StoreError, match="was moved or removed during the run"):
        gradlab.run(tree, out=tmp_path / "run", executor="inline", on_results=move, figures=False)
    assert not (tmp_path / "run").exists()
    assert gradlab.status(tmp_path / "moved").planned == 80


def test_a_file_system_without_locks_is_reported(
    tree: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", no_locks)
    with pytest.raises(StoreError, match="this file system does not support locks"):
        gradlab.run(tree, out=tmp_path / "run", figures=False)


def test_a_killed_report_leaves_no_dead_link(
    tree: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stop writing a report after every single file: all links of the existing report must resolve."""
    run = tmp_path / "run"
    gradlab.run({**tree, "figures": ["training_loss", "gradient_by_layer"]}, out=run)
    result = gradlab.open_run(run)
    other = replace(result, recording=None)
    drawn = {id(one.story.pictures): draw_files(one.story.pictures, one.story.question) for one in (result, other)}
    monkeypatch.setattr("gradlab.report.writing.draw_files", lambda pictures, title: drawn[id(pictures)])
    writes = files.write_bytes
    for died_after in range(40):
        left = died_after

        def write(path: Path, content: bytes) -> None:
            nonlocal left
            if left == 0:
                raise KeyboardInterrupt
            left -= 1
            writes(path, content)

        with monkeypatch.context() as patched:
            patched.setattr("gradlab.runs.store.folder.write_bytes", write)
            try:
                (other if died_after % 2 else result).rewrite()
                finished = True
            except KeyboardInterrupt:
                finished = False
        text = (run / "report.md").read_text()
        assert [link for link in relative_links(text) if not (run / link).is_file()] == []
        if finished:
            return
    raise AssertionError("the report was never finished")


# ---------------------------------------------------------------------- malicious folders


@pytest.mark.shipped
def test_a_damaged_chunk_is_reported_by_every_command(tmp_path: Path, made: Path) -> None:
    shutil.copytree(made, tmp_path / "run")
    (table,) = sorted((tmp_path / "run/results").rglob("trials.parquet"))[:1]
    content = table.read_bytes()
    table.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
    for words in (
        ("export", "run", "--to", "csv"),
        ("report", "run", "--json"),
        ("report", "run", "--against", "run"),
        ("report", "run"),
        ("status", "run"),
    ):
        done = command(*words, cwd=tmp_path)
        assert "is damaged" in done.stderr + done.stdout, words
    assert json.loads(command("report", "run", "--json", cwd=tmp_path).stdout)["notes"]


@pytest.mark.parametrize("where", ["temporary", "figures", "lock"])
def test_links_in_a_run_cause_no_write_outside_it(where: str, tree: dict[str, Any], tmp_path: Path, run: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "overview.png").write_text("mine")
    if where == "temporary":
        (run / f".report.md.{os.getpid()}.tmp").symlink_to(outside / "overview.png")
        assert command("report", "run", cwd=tmp_path).returncode == 0
        assert not (run / "report.md").is_symlink()
    elif where == "figures":
        (run / "figures").symlink_to(outside)
        done = command("report", "run", cwd=tmp_path)
        assert (done.returncode, "leads out of the run's folder" in done.stderr) == (1, True)
    else:
        (run / "lock").unlink()
        (run / "lock").symlink_to(outside / "overview.png")
        with pytest.raises(StoreError, match="cannot write to the run folder"):
            gradlab.run(tree, out=run, figures=False)
    assert (outside / "overview.png").read_text() == "mine"
    assert len(list(outside.iterdir())) == 1


@pytest.mark.parametrize("name", ["lock", "audit.json", "plan.json", "results/000001/chunk.json"])
def test_a_pipe_in_a_run_does_not_block(name: str, run: Path) -> None:
    (run / name).unlink(missing_ok=True)
    os.mkfifo(run / name)
    read_run(run)  # it may return anything, but it must return


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("environment.json", {"packages": 5}),
        ("environment.json", {"packages": {"numpy": [1]}}),
        ("environment.json", {"also": 5}),
        ("environment.json", {"also": [5]}),
        ("environment.json", {"also": [{"packages": 5}]}),
        ("plan.json", {"parts": [{"file": "a\0b", "sha256": "x"}]}),
        ("plan.json", {"parts": [{"file": "0/own.py", "sha256": "x", "helpers": [1]}]}),
        ("plan.json", {"engine": 5}),
        ("plan.json", {"stated": 5}),
        ("results/000001/chunk.json", {}),
        ("results/000001/chunk.json", {"format": 1, "files": []}),
        ("results/000001/chunk.json", {"format": 1, "files": {}}),
        ("results/000001/chunk.json", {"format": 1, "files": {"trials.parquet": {}}}),
    ],
)
def test_invalid_files_with_a_matching_checksum_are_reported(name: str, value: Any, run: Path) -> None:
    if name == "plan.json":
        plan = json.loads((run / name).read_bytes())
        groups = [{**group, **{k: v for k, v in value.items() if k in group}} for group in plan["groups"]]
        value = {**plan, **({"parts": value["parts"]} if "parts" in value else {}), "groups": groups}
    (run / name).write_bytes(sealed(value))
    _, notes = read_run(run)
    assert notes


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 900 + "1" + "}" * 900])
def test_deeply_nested_files_are_reported_as_damaged(text: str, run: Path) -> None:
    for name in ("results/000001/chunk.json", "plan.json", "audit.json"):
        before = (run / name).read_bytes()
        (run / name).write_text(text)
        assert read_run(run)[1]
        (run / name).write_bytes(before)


def test_a_copied_failure_does_not_undo_a_result(tree: dict[str, Any], tmp_path: Path) -> None:
    plan = gradlab.plan(tree)
    failed = [TrialResult(trial, None, "RuntimeError: not today") for trial in plan.trials]
    with RunFolder.start(tmp_path / "run", plan, {}) as folder:
        folder.commit(failed)
    gradlab.run(tree, out=tmp_path / "run", figures=False, mixed=True)
    assert gradlab.status(tmp_path / "run").done == 4
    shutil.copytree(tmp_path / "run/results/000001", tmp_path / "run/results/000077")
    assert (gradlab.status(tmp_path / "run").done, gradlab.status(tmp_path / "run").failed) == (4, 0)


def test_a_run_without_its_environment_is_not_resumed_silently(tree: dict[str, Any], tmp_path: Path) -> None:
    gradlab.run(tree, out=tmp_path / "run", seeds=1, figures=False)
    (tmp_path / "run/environment.json").unlink()
    with pytest.raises(StoreError, match=r"environment\.json is missing.*--mixed continues"):
        gradlab.run(tree, out=tmp_path / "run", figures=False)
    assert len(gradlab.run(tree, out=tmp_path / "run", figures=False, mixed=True).trials()) == 4


def test_a_condensed_run_has_one_chunk_without_weights_and_gives_the_same_report(run: Path) -> None:
    from gradlab.runs.store.folder import condense

    before = gradlab.open_run(run)
    condense(run)
    (chunk,) = (run / "results").iterdir()
    assert {path.name for path in chunk.iterdir()} == {
        "chunk.json", "trials.parquet", "curves.parquet", "layers.parquet"
    }  # fmt: skip
    after = gradlab.open_run(run)
    assert after.measured.hash == before.measured.hash
    assert after.layers().equals(before.layers())
    assert after.curves().equals(before.curves())
    assert gradlab.verify(run, sample=2, trust=True).findings == ()
    gradlab.run(str(run / "study.yaml"), out=run, executor="inline", figures=False)
    assert gradlab.verify(run, sample=0).findings == ()


def test_a_thinned_run_keeps_its_trials_and_says_so_in_the_ledger(run: Path) -> None:
    from gradlab.runs.store.folder import condense
    from gradlab.runs.store.ledger import read_ledger

    before = gradlab.open_run(run)
    condense(run, lambda name, table: table.slice(0, 1) if name == "curves" else table)
    after = gradlab.open_run(run)
    assert after.measured.hash == before.measured.hash
    assert [v.to_json() for v in after.verdicts] == [v.to_json() for v in before.verdicts]
    assert (len(after.curves()), len(after.layers())) == (1, len(before.layers()))
    ledger = read_ledger(run)
    assert ledger is not None
    assert ledger.of("trials")[-1].data["found"] == "thinned"
    assert gradlab.verify(run, sample=2, trust=True).findings == ()


def test_an_edited_number_in_a_condensed_run_is_seen_by_the_ledger(run: Path) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    from gradlab.runs.store.folder import condense
    from gradlab.runs.store.records import Chunk, MemoryChunk, commit

    condense(run)
    (path,) = (run / "results").iterdir()
    tables = dict(Chunk.open(path).loaded().tables)
    better = pc.multiply(tables["trials"]["final_loss"], 0.5)
    place = tables["trials"].column_names.index("final_loss")
    tables["trials"] = tables["trials"].set_column(place, "final_loss", pa.chunked_array(better))
    shutil.rmtree(path)
    commit(path, MemoryChunk(tables, {}), run / ".writing", without_weights=True)
    assert any("is not the one that was committed" in finding for finding in gradlab.verify(run, sample=0).findings)


@pytest.mark.parametrize(("version", "hint"), [(4, "run its study.yaml again"), (6, "update gradlab")])
def test_a_run_of_another_format_is_refused_with_what_to_do(run: Path, version: int, hint: str) -> None:
    rewrite(run, format=version)
    with pytest.raises(StoreError, match=f"written in format {version}, and this gradlab reads format 5; {hint}"):
        gradlab.open_run(run)
