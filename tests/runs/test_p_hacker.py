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
from gradlab.facts import Fact
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


def found(folder: Path, sample: int = 0) -> list[tuple[str, str]]:
    """What verify does not accept: codes and subjects."""
    checks = gradlab.verify(folder, sample=sample, seed=0).checks
    return [(fact.code, fact.subject) for check in checks for fact in check.facts]


def told(result: gradlab.Result) -> dict[str, Fact]:
    """What is told of the history of a run, by code."""
    return {fact.code: fact for fact in result.story.facts}


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
    assert verified.remarks == ()
    assert gradlab.open_run(tmp_path / "run").remarks == ()


def test_attempts_in_one_folder_are_counted_also_when_they_are_deleted(tmp_path: Path) -> None:
    for attempt in range(20):
        result = run(tmp_path / "run", {**STUDY, "seed": attempt, "seeds": 1})
    assert result.history is not None
    assert result.history.attempt == 20
    fact = told(result)["earlier_attempts"]
    assert fact.numbers == {"attempts": 19, "gone": 0}
    assert fact.words in (tmp_path / "run/report.md").read_text().replace("\\", "")
    for place in tmp_path.glob("run~*"):
        shutil.rmtree(place)
    assert told(gradlab.open_run(tmp_path / "run"))["earlier_attempts"].numbers == {"attempts": 19, "gone": 19}
    run(tmp_path / "run", force=True)
    assert gradlab.open_run(tmp_path / "run").to_json()["history"]["attempt"] == 21


@pytest.mark.parametrize(
    ("claims", "code", "claim"),
    [
        ([{**CLAIM, "op": ">"}], "claim_changed", 1),
        ([{**CLAIM, "text": "The skip is better"}], "claim_changed", 1),
        ([], "claim_removed", 1),
        (
            [CLAIM, {"text": "Low", "metric": "final_loss", "arms": "plain", "op": "<", "value": 2}],
            "claim_added",
            2,
        ),
    ],
)
def test_a_claim_edited_after_the_run_is_told(claims: list[Any], code: str, claim: int, copy: Path) -> None:
    result = run(copy, {**STUDY, "claims": claims}, seeds=4)
    fact = told(result)[code]
    assert fact.numbers["claim"] == claim
    assert fact.words in result.remarks
    assert fact.words in gradlab.open_run(copy).remarks
    assert fact.words.split(":")[0] in (copy / "report.md").read_text().replace("\\", "")
    assert fact.words.split(":")[0] in (copy / "report.html").read_text().replace("&#34;", '"')
    assert gradlab.verify(copy, sample=0).ok


def test_a_claim_edited_in_the_plan_by_hand_does_not_check_out(copy: Path) -> None:
    from gradlab.runs.store.files import sealed

    plan = json.loads((copy / "plan.json").read_bytes())
    del plan["sha256"]
    plan["tree"]["claims"][0]["op"] = ">"
    (copy / "plan.json").write_bytes(sealed(plan))
    assert [code for code, _ in found(copy)] == ["plan_edited", "claim_changed"]


def test_seeds_added_until_it_fits_are_told_with_the_looks_before(tmp_path: Path) -> None:
    for seeds in (2, 3, 5):
        result = run(tmp_path / "run", seeds=seeds)
    assert [(fact.code, fact.numbers) for fact in result.story.facts] == [("seeds_added", {"times": 2, "added": 3})]
    assert gradlab.open_run(tmp_path / "run").to_json()["history"]["looks"] == 3


def test_seeds_and_groups_left_out_are_told(copy: Path) -> None:
    fact = told(run(copy, seeds=[0, 1]))["seeds_removed"]
    assert (fact.numbers["removed"], fact.numbers["lost_trials"]) == (2, 4)
    one = {**STUDY, "arms": {"residual": {"model.skip": "identity"}}, "claims": []}
    fact = told(run(copy, one))["groups_removed"]
    assert (fact.numbers["removed"], fact.numbers["lost_trials"]) == (1, 2)


def test_a_setting_of_one_arm_changed_after_results_is_told(copy: Path) -> None:
    arms = {"plain": {}, "residual": {"model.skip": "identity", "train.lr": 0.02}}
    result = run(copy, {**STUDY, "arms": arms, "factor": ["model.skip", "train.lr"]}, seeds=4)
    assert told(result)["settings_changed"].subject == "residual"


def test_a_chunk_that_was_deleted_is_named_with_its_trials(copy: Path) -> None:
    shutil.rmtree(copy / "results/000002")
    assert found(copy) == [("chunk_gone", "000002"), ("results_gone", "plain · seed 2")]
    assert "plain · seed 3" in " ".join(gradlab.verify(copy, sample=0).findings)
    assert told(run(copy, seeds=4))["trials_removed"].numbers["trials"] == 4
    assert found(copy, 8) == []  # the same bits are there again


def test_deleted_seeds_that_are_not_run_again_stay_gone(copy: Path) -> None:
    shutil.rmtree(copy / "results/000002")
    run(copy, seeds=2)
    assert ("results_gone", "plain · seed 2") in found(copy)


@pytest.mark.parametrize("table", ["trials", "curves"])
def test_an_edited_table_is_damage(table: str, copy: Path) -> None:
    edited(
        copy / "results/000001",
        table,
        lambda t: column_set(t, name := t.column_names[-1], [0.5] * len(t[name])),
        mend=False,
    )
    assert ("chunk_damaged", "000001") in found(copy)
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
    assert ("results_edited", "plain · seed 0") in found(copy)
    assert (("chunk_rewritten", "000001") in found(copy)) == ledger


def test_a_chunk_written_again_without_its_unwelcome_rows_is_named(copy: Path) -> None:
    unwelcome = pq.read_table(copy / "results/000001/trials.parquet")["trial"].to_pylist()[0]
    for table in ("trials", "curves", "layers"):
        edited(
            copy / "results/000001",
            table,
            lambda t: t.filter([x != unwelcome for x in t["trial"].to_pylist()]),
            mend=True,
        )
    assert found(copy) == [("chunk_rewritten", "000001"), ("results_gone", "plain · seed 0")]
    fact = told(run(copy, seeds=4))["chunk_altered"]
    assert (fact.subject, fact.numbers["trials"]) == ("000001", 1)


def test_results_swapped_between_arms_do_not_check_out(copy: Path) -> None:
    def swapped(rows: Any) -> Any:
        ids = rows["trial"].to_pylist()
        first, second = list(dict.fromkeys(ids))[:2]
        turn = {first: second, second: first}
        return column_set(rows, "trial", [turn.get(trial, trial) for trial in ids])

    for table in ("trials", "curves", "layers"):
        edited(copy / "results/000001", table, swapped, mend=True)
    assert {"row_of_another_trial", "chunk_rewritten", "results_edited"} <= dict(found(copy)).keys()
    assert "retrained_differs" in dict(found(copy, 8))


def test_arms_swapped_in_the_plan_do_not_check_out(copy: Path) -> None:
    from gradlab.runs.store.files import sealed

    plan = json.loads((copy / "plan.json").read_bytes())
    del plan["sha256"]
    first, second = plan["groups"]
    first["name"], second["name"] = second["name"], first["name"]
    (copy / "plan.json").write_bytes(sealed(plan))
    assert "plan_edited" in dict(found(copy))
    assert ("settings_edited", "plain") in found(copy)


def test_the_last_line_of_the_ledger_removed_is_named_and_stays_known(copy: Path) -> None:
    lines = (copy / LEDGER).read_bytes().splitlines(keepends=True)
    (copy / LEDGER).write_bytes(b"".join(lines[:-1]))
    assert ("ledger_broken", "") in found(copy)
    assert "last 1 " in problems(copy)
    assert any("entries" in note for note in gradlab.open_run(copy).notes)
    assert told(run(copy, seeds=4))["ledger_cut"].numbers["entries"] == 1


def problems(folder: Path) -> str:
    """What is wrong with the ledger."""
    return " ".join(gradlab.verify(folder, sample=0).history.problems)


def test_the_file_that_names_the_last_line_is_missed(copy: Path) -> None:
    (copy / "ledger.json").unlink()
    assert found(copy) == [("ledger_broken", "")]
    run(copy, seeds=5)
    assert found(copy) == []


def test_a_line_in_the_middle_edited_removed_or_moved_is_named(copy: Path) -> None:
    whole = (copy / LEDGER).read_bytes()
    lines = whole.splitlines(keepends=True)
    assert b'"op":"<"' in lines[1]
    (copy / LEDGER).write_bytes(whole.replace(b'"op":"<"', b'"op":">"', 1))
    assert "line 2 was altered" in problems(copy)
    (copy / LEDGER).write_bytes(b"".join([lines[0], lines[1], *lines[3:]]))
    assert "line 3 does" in problems(copy)
    (copy / LEDGER).write_bytes(b"".join([lines[0], lines[2], lines[1], *lines[3:]]))
    assert "not follow" in problems(copy)
    run(copy, seeds=4)  # what is appended later does not heal it
    assert "not follow" in problems(copy)


def test_the_ledger_removed_is_named_and_one_that_is_begun_again_says_so(copy: Path) -> None:
    (copy / LEDGER).unlink()
    assert ("ledger_missing", "") in found(copy)
    assert "ledger_missing" in told(gradlab.open_run(copy))
    result = run(copy, seeds=4)
    assert "ledger_removed" in told(result)
    assert not result.to_json()["history"]["frozen"]


def test_results_computed_before_their_claims_are_not_frozen(tmp_path: Path) -> None:
    gradlab.run(STUDY, executor="inline").save(tmp_path / "run")
    opened = gradlab.open_run(tmp_path / "run")
    assert "saved_afterwards" in told(opened)
    assert gradlab.verify(tmp_path / "run", sample=None).ok


def test_unfinished_and_failed_trials_are_named(tmp_path: Path) -> None:
    def stop(results: Any) -> None:
        raise KeyboardInterrupt

    result = run(tmp_path / "run", seeds=2, on_results=stop)
    assert told(result)["trials_unfinished"].numbers["planned"] == 4
    assert "residual · seed 1" in " ".join(result.remarks)


def test_a_chunk_damaged_on_purpose_is_set_aside_told_and_trained_to_the_same_bits(copy: Path) -> None:
    path = copy / "results/000001/curves.parquet"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    assert ("chunk_damaged", "000001") in found(copy)
    fact = told(run(copy, seeds=4))["chunk_damaged"]
    assert fact.subject == "000001"
    assert "damaged/000001" in fact.words
    assert found(copy, 8) == []


def test_a_forged_chunk_over_committed_results_does_not_check_out(copy: Path) -> None:
    shutil.copytree(copy / "results/000001", copy / "results/000003")
    assert found(copy) == []
    edited(
        copy / "results/000003",
        "trials",
        lambda t: column_set(t, "digest", ["0" * 16] * t.num_rows),
        mend=True,
    )
    assert ("results_replaced", "plain · seed 0") in found(copy)
    shutil.copytree(copy / "results/000003", copy / "results/000004")
    assert ("chunk_unknown", "000004") in found(copy)


def test_a_run_that_is_being_written_to_is_not_verified(tmp_path: Path) -> None:
    def verify(results: Any) -> None:
        with pytest.raises(gradlab.GradlabError, match="being written"):
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
    assert found(copy) == []
    path = copy / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert found(copy) == [("file_edited", Path(name).name)]
    gradlab.open_run(copy).rewrite()
    assert (found(copy) == []) == (name not in ("study.yaml", "resolved.yaml"))  # a report does not bless these


@pytest.mark.parametrize("name", ["audit.json", "environment.json"])
def test_a_file_that_reports_are_made_from_is_named_though_its_checksum_fits(
    name: str, reported: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(reported, tmp_path / "run"))
    tree = json.loads((copy / name).read_bytes())
    del tree[KEY]
    (copy / name).write_bytes(sealed({**tree, "answer": "Yes: nothing else differs.", "cores": 512}))
    assert found(copy) == [("file_edited", name)]
    gradlab.open_run(copy).rewrite()
    assert found(copy) == [("file_edited", name)], "a report does not bless it"
    (copy / name).unlink()
    assert found(copy) == ([("audit_removed", name)] if name == "audit.json" else [])


def test_a_run_that_goes_on_records_what_it_writes_again(reported: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(reported, tmp_path / "run"))

    def stop(results: Any) -> None:
        raise KeyboardInterrupt

    run(copy, {**STUDY, "figures": ["training_loss"]}, seeds=5, on_results=stop)
    assert found(copy) == []
    run(copy, {**STUDY, "figures": ["training_loss"]}, seeds=6)
    assert found(copy) == []


def test_a_removed_figure_is_no_edit_and_another_format_keeps_its_hash(reported: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(reported, tmp_path / "run"))
    (copy / "figures/training_loss.pdf").unlink()
    assert found(copy) == []
    (copy / "report.html").write_text("better")
    gradlab.open_run(copy).rewrite(("md",))
    assert found(copy) == [("file_edited", "report.html")]
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
    assert "labels_changed" in told(result)


@pytest.mark.parametrize(
    ("seeds", "picked"), [([0, 1, 2], ()), ([2, 0, 1], ()), ([3, 17], (3, 17)), ([1], (1,)), (2, ())]
)
def test_seeds_that_were_listed_by_hand_are_remarked_on(seeds: Any, picked: tuple[int, ...], tmp_path: Path) -> None:
    result = run(tmp_path / "run", {**STUDY, "seeds": seeds})
    assert result.history.picked == picked
    assert ("seeds_picked" in told(result)) == bool(picked)
