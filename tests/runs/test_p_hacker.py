"""A p-hacker at work: what is done to claims, seeds or results once they are known shows in the report or verify."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import gradlab
from gradlab.running import verify
from gradlab.runs.store.files import KEY, sealed
from gradlab.runs.store.ledger import LEDGER
from gradlab.spec.base import canonical_json
from gradlab.testing.base import small_tree

CLAIM = {"text": "The skip ends lower", "metric": "final_loss", "arms": ["residual", "plain"], "op": "<"}
STUDY = {**small_tree(), "figures": [], "claims": [CLAIM], "measure": {"layers": ["end"]}}


def run(out: Path, tree: dict[str, Any] = STUDY, **options: Any) -> gradlab.Result:
    return gradlab.run(tree, out=out, executor="inline", figures=False, **options)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two arms and four seeds, in two chunks."""
    folder = tmp_path_factory.mktemp("made") / "run"
    run(folder, seeds=2)
    run(folder, seeds=4)
    return folder


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "run"))


def found(folder: Path, sample: int = 0) -> str:
    """What verify does not accept."""
    return " ".join(gradlab.verify(folder, sample=sample, seed=0).findings)


def edited(chunk: Path, table: str, edit: Callable[[Any], Any], *, mend: bool) -> None:
    """Write a table of a chunk again; with `mend`, the checksums of its list of files are made to fit."""
    path = chunk / f"{table}.parquet"
    pq.write_table(edit(pq.read_table(path)), path, compression="zstd", store_schema=False)
    if mend:
        manifest = json.loads((chunk / "chunk.json").read_bytes())
        content = path.read_bytes()
        rows = pq.read_metadata(path).num_rows
        manifest["files"][path.name] = {"rows": rows, "bytes": len(content), "sha256": sha256(content).hexdigest()}
        manifest["trials"] = rows if table == "trials" else manifest["trials"]
        del manifest["sha256"]
        manifest["sha256"] = sha256(canonical_json(manifest).encode()).hexdigest()
        (chunk / "chunk.json").write_text(json.dumps(manifest))


def column_set(table: Any, name: str, values: list[Any]) -> Any:
    import pyarrow as pa

    place = table.column_names.index(name)
    return table.set_column(place, name, pa.array(values, table.schema.field(name).type))


def test_an_honest_run_checks_out_and_has_nothing_to_remark(tmp_path: Path) -> None:
    result = run(tmp_path / "run")
    assert result.remarks == ()
    verified = gradlab.verify(tmp_path / "run", sample=None)
    assert verified.findings == ()
    assert verified.complete
    assert verified.history.frozen
    assert verified.history.remarks == ()
    assert gradlab.open_run(tmp_path / "run").remarks == ()


def test_attempts_in_one_folder_are_counted_also_when_they_are_deleted(tmp_path: Path) -> None:
    for attempt in range(20):
        result = run(tmp_path / "run", {**STUDY, "seed": attempt, "seeds": 1})
    assert result.history is not None
    assert result.history.attempt == 20
    assert "19 earlier attempts were moved aside, only the last is reported here: 19 lie in run~1, run~2" in (
        tmp_path / "run/report.md"
    ).read_text().replace("\\", "")
    for place in tmp_path.glob("run~*"):
        shutil.rmtree(place)
    assert "19 are no longer there" in " ".join(gradlab.open_run(tmp_path / "run").remarks)
    run(tmp_path / "run", force=True)
    assert gradlab.open_run(tmp_path / "run").to_json()["history"]["attempt"] == 21


@pytest.mark.parametrize(
    ("claims", "told"),
    [
        (
            [{**CLAIM, "op": ">"}],
            "Claim 1 (“The skip ends lower”) was changed after results were known: op was <, is >.",
        ),
        (
            [{**CLAIM, "text": "The skip is better"}],
            "Claim 1 was changed after results were known: text was “The skip ends lower”, is “The skip is better”.",
        ),
        ([], "A claim was removed after results were known: “The skip ends lower” (final_loss, residual < plain)."),
        (
            [CLAIM, {"text": "Low", "metric": "final_loss", "arms": "plain", "op": "<", "value": 2}],
            "Claim 2 was added after results were known: “Low” (final_loss, plain < 2).",
        ),
    ],
)
def test_a_claim_edited_after_the_run_is_told(claims: list[Any], told: str, copy: Path) -> None:
    result = run(copy, {**STUDY, "claims": claims}, seeds=4)
    assert told in result.remarks
    assert told in gradlab.open_run(copy).remarks
    assert told.split(":")[0] in (copy / "report.md").read_text().replace("\\", "")
    assert told.split(":")[0] in (copy / "report.html").read_text().replace("&#34;", '"')
    assert gradlab.verify(copy, sample=0).ok


def test_a_claim_edited_in_the_plan_by_hand_does_not_check_out(copy: Path) -> None:
    from gradlab.runs.store.files import sealed

    plan = json.loads((copy / "plan.json").read_bytes())
    del plan["sha256"]
    plan["tree"]["claims"][0]["op"] = ">"
    (copy / "plan.json").write_bytes(sealed(plan))
    assert "plan.json is not the plan that the ledger recorded last" in found(copy)
    assert "claim changed" in found(copy)


def test_seeds_added_until_it_fits_are_told_with_the_looks_before(tmp_path: Path) -> None:
    for seeds in (2, 3, 5):
        result = run(tmp_path / "run", seeds=seeds)
    assert result.remarks == (
        "Seeds were added 2 times after results were known (2 → 3 → 5); verdicts had been looked at 2 times before the "
        "last.",
    )
    assert gradlab.open_run(tmp_path / "run").to_json()["history"]["looks"] == 3


def test_seeds_and_groups_left_out_are_told(copy: Path) -> None:
    result = run(copy, seeds=[0, 1])
    assert (
        "2 seeds were removed after results were known (2, 3); 4 finished trials of them are not in this report."
        in (result.remarks)
    )
    one = {**STUDY, "arms": {"residual": {"model.skip": "identity"}}, "claims": []}
    assert "1 group was removed after results were known: plain (2 finished trials)." in run(copy, one).remarks


def test_a_setting_of_one_arm_changed_after_results_is_told(copy: Path) -> None:
    arms = {"plain": {}, "residual": {"model.skip": "identity", "train.lr": 0.02}}
    result = run(copy, {**STUDY, "arms": arms, "factor": ["model.skip", "train.lr"]}, seeds=4)
    assert any(
        remark.startswith("The settings of residual were changed after results were known: train.lr was not given")
        for remark in result.remarks
    )


def test_a_chunk_that_was_deleted_is_named_with_its_trials(copy: Path) -> None:
    shutil.rmtree(copy / "results/000002")
    assert "Chunk 000002 was committed and is gone" in found(copy)
    assert "plain · seed 3" in found(copy)
    result = run(copy, seeds=4)
    assert any("4 trials were removed from the folder and run again" in remark for remark in result.remarks)
    assert found(copy, 8) == ""  # the same bits are there again


def test_deleted_seeds_that_are_not_run_again_stay_gone(copy: Path) -> None:
    shutil.rmtree(copy / "results/000002")
    run(copy, seeds=2)
    assert "Results that were committed are gone: plain · seed 2" in found(copy)


@pytest.mark.parametrize("table", ["trials", "curves"])
def test_an_edited_table_is_damage(table: str, copy: Path) -> None:
    edited(
        copy / "results/000001",
        table,
        lambda t: column_set(t, name := t.column_names[-1], [0.5] * len(t[name])),
        mend=False,
    )
    assert "000001" in found(copy)
    assert "is damaged" in found(copy)
    if table == "trials":
        assert any("is damaged" in note for note in gradlab.open_run(copy).notes)


@pytest.mark.parametrize("ledger", [True, False])
@pytest.mark.parametrize(("table", "name"), [("trials", "final_loss"), ("curves", "value"), ("layers", "value")])
def test_an_edited_table_with_mended_checksums_does_not_check_out(
    table: str, name: str, ledger: bool, copy: Path
) -> None:
    def better(rows: Any) -> Any:
        values = rows[name].to_pylist()
        return column_set(rows, name, [values[0] * 0.5, *values[1:]])

    edited(copy / "results/000001", table, better, mend=True)
    if not ledger:
        (copy / LEDGER).unlink()
    told = found(copy)
    assert "The stored numbers are not those of the digest: plain · seed 0" in told
    assert ("Chunk 000001 is not the one that was committed" in told) == ledger


def test_a_chunk_written_again_without_its_unwelcome_rows_is_named(copy: Path) -> None:
    unwelcome = pq.read_table(copy / "results/000001/trials.parquet")["trial"].to_pylist()[0]
    for table in ("trials", "curves", "layers"):
        edited(
            copy / "results/000001",
            table,
            lambda t: t.filter([x != unwelcome for x in t["trial"].to_pylist()]),
            mend=True,
        )
    told = found(copy)
    assert "Chunk 000001 is not the one that was committed: it was written again without plain · seed 0" in told
    assert "Results that were committed are gone: plain · seed 0" in told
    again = run(copy, seeds=4)
    assert "Chunk 000001 was altered after it was committed: results differ for plain · seed 0." in again.remarks


def test_results_swapped_between_arms_do_not_check_out(copy: Path) -> None:
    def swapped(rows: Any) -> Any:
        ids = rows["trial"].to_pylist()
        first, second = list(dict.fromkeys(ids))[:2]
        turn = {first: second, second: first}
        return column_set(rows, "trial", [turn.get(trial, trial) for trial in ids])

    for table in ("trials", "curves", "layers"):
        edited(copy / "results/000001", table, swapped, mend=True)
    told = found(copy)
    assert "has the id of" in told
    assert "Chunk 000001 is not the one that was committed" in told
    assert "The stored numbers are not those of the digest" in told
    assert "gives other results than those stored" in found(copy, 8)


def test_arms_swapped_in_the_plan_do_not_check_out(copy: Path) -> None:
    from gradlab.runs.store.files import sealed

    plan = json.loads((copy / "plan.json").read_bytes())
    del plan["sha256"]
    first, second = plan["groups"]
    first["name"], second["name"] = second["name"], first["name"]
    (copy / "plan.json").write_bytes(sealed(plan))
    told = found(copy)
    assert "plan.json is not the plan that the ledger recorded last" in told
    assert "The settings of plain do not have the id under which its results are kept." in told


def test_the_last_line_of_the_ledger_removed_is_named_and_stays_known(copy: Path) -> None:
    lines = (copy / LEDGER).read_bytes().splitlines(keepends=True)
    (copy / LEDGER).write_bytes(b"".join(lines[:-1]))
    assert "the last 1 of its entries were removed" in found(copy)
    assert any("entries were removed" in note for note in gradlab.open_run(copy).notes)
    result = run(copy, seeds=4)
    assert any("1 entry at the end of the ledger had been removed" in remark for remark in result.remarks)


def test_the_file_that_names_the_last_line_is_missed(copy: Path) -> None:
    (copy / "ledger.json").unlink()
    assert "ledger.json is missing; whether entries at the end of the ledger were removed cannot be seen" in found(copy)
    run(copy, seeds=5)
    assert found(copy) == ""


def test_a_line_in_the_middle_edited_removed_or_moved_is_named(copy: Path) -> None:
    whole = (copy / LEDGER).read_bytes()
    lines = whole.splitlines(keepends=True)
    assert b'"op":"<"' in lines[1]
    (copy / LEDGER).write_bytes(whole.replace(b'"op":"<"', b'"op":">"', 1))
    assert "line 2 was altered" in found(copy)
    (copy / LEDGER).write_bytes(b"".join([lines[0], lines[1], *lines[3:]]))
    assert "line 3 does not follow the line before it" in found(copy)
    (copy / LEDGER).write_bytes(b"".join([lines[0], lines[2], lines[1], *lines[3:]]))
    assert "does not follow" in found(copy)
    run(copy, seeds=4)
    assert "does not follow" in found(copy), "what is appended later does not heal it"


def test_the_ledger_removed_is_named_and_one_that_is_begun_again_says_so(copy: Path) -> None:
    (copy / LEDGER).unlink()
    assert "ledger.jsonl is missing" in found(copy)
    assert "The ledger of this run is missing" in " ".join(gradlab.open_run(copy).remarks)
    result = run(copy, seeds=4)
    assert any("the ledger was removed and begins at" in remark for remark in result.remarks)
    assert not result.to_json()["history"]["frozen"]


def test_results_computed_before_their_claims_are_not_frozen(tmp_path: Path) -> None:
    gradlab.run(STUDY, executor="inline").save(tmp_path / "run")
    opened = gradlab.open_run(tmp_path / "run")
    assert "Claims not frozen: results were computed in memory first and saved with their claims afterwards." in (
        opened.remarks
    )
    assert gradlab.verify(tmp_path / "run", sample=None).ok


def test_unfinished_and_failed_trials_are_named(tmp_path: Path) -> None:
    def stop(results: Any) -> None:
        raise KeyboardInterrupt

    result = run(tmp_path / "run", seeds=2, on_results=stop)
    assert any("of 4 planned trials without a result: " in remark for remark in result.remarks)
    assert "residual · seed 1" in " ".join(result.remarks)


def test_a_chunk_damaged_on_purpose_is_set_aside_told_and_trained_to_the_same_bits(copy: Path) -> None:
    path = copy / "results/000001/curves.parquet"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    assert "is damaged" in found(copy)
    result = run(copy, seeds=4)
    assert any("Chunk 000001 was damaged and is kept in damaged/000001" in remark for remark in result.remarks)
    assert found(copy, 8) == ""


def test_a_forged_chunk_over_committed_results_does_not_check_out(copy: Path) -> None:
    shutil.copytree(copy / "results/000001", copy / "results/000003")
    assert found(copy) == ""
    edited(
        copy / "results/000003",
        "trials",
        lambda t: column_set(t, "digest", ["0" * 16] * t.num_rows),
        mend=True,
    )
    assert "Results are not those that were committed first: plain · seed 0" in found(copy)
    shutil.copytree(copy / "results/000003", copy / "results/000004")
    assert "Chunk 000004 is not in the ledger: it was put there by hand" in found(copy)


def test_a_run_that_is_being_written_to_is_not_verified(tmp_path: Path) -> None:
    def verify(results: Any) -> None:
        with pytest.raises(gradlab.GradlabError, match="is being written to"):
            gradlab.verify(tmp_path / "run")

    run(tmp_path / "run", on_results=verify)


# ---------------------------------------------------------------------- what a reader sees


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with its report and figures."""
    folder = tmp_path_factory.mktemp("reported") / "run"
    gradlab.run({**STUDY, "figures": ["training_loss"]}, out=folder, executor="inline")
    return folder


SEEN = ("report.html", "report.md", "study.yaml", "resolved.yaml", "tables.tex", "figures/training_loss.svg")


@pytest.mark.parametrize("name", SEEN)
def test_an_edited_file_that_a_reader_sees_is_named(name: str, reported: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(reported, tmp_path / "run"))
    assert found(copy) == ""
    path = copy / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert f"{name} is not what was written" in found(copy)
    gradlab.open_run(copy).rewrite()
    assert (found(copy) == "") == (name not in ("study.yaml", "resolved.yaml"))  # a report does not bless these


@pytest.mark.parametrize("name", ["audit.json", "environment.json"])
def test_a_file_that_reports_are_made_from_is_named_though_its_checksum_fits(
    name: str, reported: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(reported, tmp_path / "run"))
    tree = json.loads((copy / name).read_bytes())
    del tree[KEY]
    (copy / name).write_bytes(sealed({**tree, "answer": "Yes: nothing else differs.", "cores": 512}))
    assert f"{name} is not what was written" in found(copy)
    gradlab.open_run(copy).rewrite()
    assert f"{name} is not what was written" in found(copy), "a report does not bless it"
    (copy / name).unlink()
    assert ("audit.json was removed" in found(copy)) == (name == "audit.json")


def test_a_run_that_goes_on_records_what_it_writes_again(reported: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(reported, tmp_path / "run"))

    def stop(results: Any) -> None:
        raise KeyboardInterrupt

    run(copy, {**STUDY, "figures": ["training_loss"]}, seeds=5, on_results=stop)
    assert found(copy) == ""
    run(copy, {**STUDY, "figures": ["training_loss"]}, seeds=6)
    assert found(copy) == ""


def test_a_removed_figure_is_no_edit_and_another_format_keeps_its_hash(reported: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(reported, tmp_path / "run"))
    (copy / "figures/training_loss.pdf").unlink()
    assert found(copy) == ""
    (copy / "report.html").write_text("better")
    gradlab.open_run(copy).rewrite(("md",))
    assert "report.html is not what was written" in found(copy)
    assert gradlab.verify(copy, sample=0).history.looks == 1


def test_verify_retrains_every_trial_that_there_is_time_for(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def retrained(**options: Any) -> str:
        return gradlab.verify(copy, seed=1, **options).checks[-1].summary

    assert retrained().startswith("8 of 8 trials")
    monkeypatch.setattr(verify, "SECONDS", -1.0)
    assert retrained().startswith("3 of 8 trials")
    assert retrained(sample=5).startswith("5 of 8 trials")
    assert retrained(sample=None).startswith("8 of 8 trials")


def test_labels_changed_after_results_are_told(copy: Path) -> None:
    run(copy, {**STUDY, "labels": {"plain": "good"}}, seeds=4)
    result = run(copy, {**STUDY, "labels": {"plain": "bad"}}, seeds=4)
    assert [change.what for change in result.history.changes if "labels" in change.what] == ["labels changed"] * 2
    assert "Labels were changed after results were known: plain was good, is bad." in result.remarks


@pytest.mark.parametrize(
    ("seeds", "told"), [([0, 1, 2], ()), ([2, 0, 1], ()), ([3, 17], (3, 17)), ([1], (1,)), (2, ())]
)
def test_seeds_that_were_listed_by_hand_are_remarked_on(seeds: Any, told: tuple[int, ...], tmp_path: Path) -> None:
    result = run(tmp_path / "run", {**STUDY, "seeds": seeds})
    assert result.history.picked == told
    assert any("listed by hand" in remark for remark in result.remarks) == bool(told)
