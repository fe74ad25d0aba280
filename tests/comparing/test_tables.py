"""Verdicts on results that exist, whatever made them: what was given, what it shows, and what it cannot show."""

from __future__ import annotations

import csv
import json
import os
import sqlite3
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import gradlab as run

import gradlab
from gradlab.comparing.claims import Frozen, parse_claim
from gradlab.comparing.noise import SETS, read_noise
from gradlab.comparing.tables import Judged, Selection, judge_table
from gradlab.errors import InvalidInput

TABLES = Path(__file__).parent / "tables"


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def pairs(gap: float, seeds: int = 10, *, noise: float = 0.01) -> list[dict[str, Any]]:
    random = np.random.default_rng(7)
    rows = []
    for seed in range(seeds):
        base = 3.3 + random.normal(0, 0.05)
        rows.append({"optimizer": "adamw", "seed": seed, "val_loss": base})
        rows.append({"optimizer": "muon", "seed": seed, "val_loss": base + gap + random.normal(0, noise)})
    return rows


def codes(judged: Judged) -> set[str]:
    return {fact.code for fact in judged.facts}


def test_two_published_records_get_the_textbook_answers() -> None:
    table = TABLES / "speedrun_two_records.csv"  # 17 and 12 runs without seeds
    faster = judge_table(table, Selection(arm="record", metric="train_seconds"), claims=["pr123 < pr122"])
    (verdict,) = faster.result.verdicts
    assert verdict.outcome == "reproduced"
    assert verdict.readings[0].estimate.value == pytest.approx(155.98 / 157.97, abs=0.001)
    assert {"no_seeds", "rows_without_partner"} <= codes(faster)
    loss = gradlab.judge(table, arm="record", metric="val_loss", matters=1e-4)
    assert loss.verdicts[0].outcome == "not settled"  # Welch's test of the published numbers: p = .13


def test_forty_published_runs_lie_below_the_target_as_their_author_found() -> None:
    table = TABLES / "speedrun_value_embeddings.csv"
    (verdict,) = gradlab.judge(table, metric="val_loss", claims=["value_embeddings < 3.28"]).verdicts
    assert verdict.outcome == "reproduced"


def test_a_duplicated_arm_is_named_and_fails_the_table(tmp_path: Path) -> None:
    rows = list(csv.DictReader((TABLES / "speedrun_two_records.csv").read_text().splitlines()))[:12]
    table = write(tmp_path / "copied.csv", [{**row, "record": name} for name in ("old", "new") for row in rows])
    judged = judge_table(table, Selection(arm="record", metric="train_seconds"))
    assert "identical_arms" in codes(judged)
    done = run("judge", str(table), "--arm", "record", "--metric", "train_seconds", cwd=tmp_path)
    assert done.returncode == 3
    assert "identical to every digit in all 12 rows" in done.stdout


def test_a_paired_difference_holds_and_the_smallest_visible_one_is_said(tmp_path: Path) -> None:
    table = write(tmp_path / "results.csv", pairs(-0.05))
    done = run("judge", "results.csv", "--claim", "muon < adamw", "--json", cwd=tmp_path)
    found = json.loads(done.stdout)
    (claim,) = found["claims"]
    assert claim["verdict"] == "reproduced"
    assert claim["p"] < 0.05
    assert {fact["code"] for fact in found["table"]} == {"claims_not_frozen"}
    plain = run("judge", "results.csv", cwd=tmp_path)
    assert "smallest difference that 10 pairs like these can show" in plain.stdout
    assert "not frozen" in plain.stdout
    assert len(plain.stdout.splitlines()) <= 12
    assert gradlab.judge(table).verdicts[0].outcome == "reproduced"


def test_no_difference_is_not_settled_and_says_how_many_seeds_would(tmp_path: Path) -> None:
    table = write(tmp_path / "null.csv", pairs(0.0, 6, noise=0.02))
    assert gradlab.judge(table, matters=0.05).verdicts[0].outcome == "no difference"
    (verdict,) = gradlab.judge(table).verdicts  # what matters of a loss, only its user knows
    assert verdict.outcome == "not settled"
    assert verdict.needs is None or verdict.needs > 0


def test_missing_repeated_and_several_rows_are_told(tmp_path: Path) -> None:
    rows = pairs(0.1, 8)
    rows.append(dict(rows[0]))
    rows.append({**rows[2], "val_loss": 9.9})
    table = write(tmp_path / "odd.csv", [row for row in rows if (row["optimizer"], row["seed"]) != ("muon", 7)])
    judged = judge_table(table, Selection())
    assert {"duplicate_rows", "several_rows_per_seed", "missing_rows"} <= codes(judged)
    assert judged.result.measured.counts()["failed"] == 1
    without = write(tmp_path / "seedless.csv", [{k: v for k, v in row.items() if k != "seed"} for row in pairs(0.1, 5)])
    assert "no_seeds" in codes(judge_table(without, Selection()))
    apart = [{**row, "seed": row["seed"] + 100 * (row["optimizer"] == "muon")} for row in pairs(0.1, 5)]
    assert "unpaired_seeds" in codes(judge_table(write(tmp_path / "apart.csv", apart), Selection()))
    fixed = [{**row, "val_loss": 3.123456 if row["optimizer"] == "muon" else row["val_loss"]} for row in pairs(0.1, 5)]
    assert "repeated_numbers" in codes(judge_table(write(tmp_path / "fixed.csv", fixed), Selection()))


def test_tables_of_all_kinds_give_the_same_verdict(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = pairs(-0.05)
    paths = [write(tmp_path / "t.csv", rows), tmp_path / "t.tsv", tmp_path / "t.parquet", tmp_path / "t.jsonl"]
    text = paths[0].read_text()
    paths[1].write_text(text.replace(",", "\t"))
    pq.write_table(pa.Table.from_pylist(rows), paths[2])
    paths[3].write_text("\n".join(map(json.dumps, rows)))
    by_arm = {arm: np.array([r["val_loss"] for r in rows if r["optimizer"] == arm]) for arm in ("adamw", "muon")}
    np.savez(tmp_path / "t.npz", **by_arm)
    paths += [tmp_path / "t.json", tmp_path / "wandb.table.json", tmp_path / "semicolons.csv", tmp_path / "latin.csv"]
    paths[4].write_text(json.dumps(rows))
    paths[5].write_text(json.dumps({"columns": list(rows[0]), "data": [list(row.values()) for row in rows]}))
    paths[6].write_bytes(b"\xef\xbb\xbf" + text.replace(",", ";").replace(".", ",").encode())
    paths[7].write_bytes(text.replace("adamw", "adamé").encode("cp1252"))
    found = {path.name: gradlab.judge(path, metric="val_loss") for path in paths}
    found["npz"] = gradlab.judge(tmp_path / "t.npz", better="lower")
    assert {result.verdicts[0].outcome for result in found.values()} == {"reproduced"}


def test_logs_and_event_files_are_read_by_their_paths(tmp_path: Path) -> None:
    for arm, gap in (("old", 0.0), ("new", -0.2)):
        for seed in range(6):
            losses = [2.0 + gap - 0.1 * step + 0.001 * seed * step for step in range(4)]
            lines = [f"epoch {step} val_loss:{loss:.5f} ok" for step, loss in enumerate(losses)]
            (tmp_path / f"{arm}_s{seed}.txt").write_text("\n".join(lines))
            folder = tmp_path / "tb" / f"{arm}_s{seed}"
            folder.mkdir(parents=True)
            (folder / "events.out.tfevents.1.here").write_bytes(b"".join(map(event, range(4), losses)))
    way = {"arm_from": r"(\w+)_s\d+", "seed_from": r"_s(\d+)", "claims": ["new < old"]}
    logs = gradlab.judge(str(tmp_path / "*.txt"), metric=r"val_loss:(\S+)", **way)  # type: ignore[arg-type]
    events = gradlab.judge(tmp_path / "tb", metric="val_loss", **way)  # type: ignore[arg-type]
    for result in (logs, events):
        assert result.verdicts[0].outcome == "reproduced"
        assert len(result.curves()) == 2 * 6 * 4
        assert "returned_curves" in result.charts or "loss_curves" in result.charts


def event(step: int, value: float) -> bytes:
    """A record of an event file with one scalar."""
    tag = b"val_loss"
    scalar = b"\x0a" + bytes([len(tag)]) + tag + b"\x15" + struct.pack("<f", value)
    summary = b"\x0a" + bytes([len(scalar)]) + scalar
    message = b"\x10" + bytes([step]) + b"\x2a" + bytes([len(summary)]) + summary
    return struct.pack("<Q", len(message)) + b"\0" * 4 + message + b"\0" * 4


def test_an_mlflow_store_is_read_as_folder_and_as_database(tmp_path: Path) -> None:
    store = sqlite3.connect(tmp_path / "mlflow.db")
    store.execute("create table params (run_uuid, key, value)")
    store.execute("create table metrics (run_uuid, key, value, timestamp, step, is_nan)")
    for number, row in enumerate(pairs(-0.05)):
        folder = tmp_path / "mlruns" / "1" / f"run{number}"
        for kind, name, text in (
            ("params", "optimizer", row["optimizer"]),
            ("params", "seed", row["seed"]),
            ("metrics", "val_loss", f"1 {row['val_loss']} 7"),
        ):
            (folder / kind).mkdir(parents=True, exist_ok=True)
            (folder / kind / name).write_text(str(text))
        for key in ("optimizer", "seed"):
            store.execute("insert into params values (?, ?, ?)", (f"run{number}", key, str(row[key])))
        store.execute("insert into metrics values (?, 'val_loss', ?, 1, 7, 0)", (f"run{number}", row["val_loss"]))
    store.commit()
    store.close()
    for place in ("mlruns", "mlflow.db"):
        with pytest.raises(InvalidInput, match="did you mean 'val_loss'"):
            gradlab.judge(tmp_path / place, metric="val_los", better="lower")
        result = gradlab.judge(tmp_path / place, metric="val_loss")
        assert result.verdicts[0].outcome == "reproduced"


def test_several_tasks_are_judged_each_and_together(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    rows = [
        {"algo": arm, "task": f"env{task}", "seed": seed, "score": 0.3 + 0.1 * task + gap + random.normal(0, 0.03)}
        for task in range(4)
        for seed in range(8)
        for arm, gap in (("sac", 0.0), ("td3", 0.1))
    ]
    result = gradlab.judge(write(tmp_path / "tasks.csv", rows), out=tmp_path / "page")
    outcomes = [verdict.outcome for verdict in result.verdicts]
    assert outcomes[0] == "reproduced"
    assert len(outcomes) == 5
    assert "interquartile mean" in result.story.findings
    assert "on one scale" in result.story.findings
    assert "performance_profiles" in result.charts
    text = (tmp_path / "page" / "report.md").read_text()
    assert "performance_profiles" in text
    assert "Existing results were judged" in text
    assert gradlab.open_run(tmp_path / "page").answer == result.answer


def test_frozen_claims_are_compared_with_the_time_of_the_results(tmp_path: Path) -> None:
    table = write(tmp_path / "results.csv", pairs(-0.05))
    words = ("claim", "freeze", "--metric", "val_loss", "--claim", "muon < adamw")
    assert run(*words, cwd=tmp_path).returncode == 0
    assert run(*words, cwd=tmp_path).returncode == 2  # claims are not frozen over others
    late = run("judge", "results.csv", "--claims", "claims.json", "--json", cwd=tmp_path)
    frozen = Frozen.read(tmp_path / "claims.json").time.timestamp()
    os.utime(table, (frozen - 100, frozen - 100))
    late = run("judge", "results.csv", "--claims", "claims.json", "--json", cwd=tmp_path)
    assert "claims_frozen_after" in late.stdout
    os.utime(table, (frozen + 100, frozen + 100))
    early = run("judge", "results.csv", "--claims", "claims.json", "--json", cwd=tmp_path)
    assert "claims_frozen_before" in early.stdout
    assert json.loads(early.stdout)["claims"][0]["verdict"] == "reproduced"
    text = (tmp_path / "claims.json").read_text()
    (tmp_path / "claims.json").write_text(text.replace("muon < adamw", "muon < sgd"))
    edited = run("judge", "results.csv", "--claims", "claims.json", cwd=tmp_path)
    assert edited.returncode == 2
    assert "edited" in edited.stderr


def test_a_comment_says_the_answer_first_and_folds_the_rest(tmp_path: Path) -> None:
    write(tmp_path / "results.csv", pairs(-0.05))
    done = run("judge", "results.csv", "--to", "comment", cwd=tmp_path)
    lines = done.stdout.splitlines()
    assert lines[0].startswith("### ")
    assert "**holds**" in done.stdout
    assert done.stdout.index("**holds**") < done.stdout.index("(p = ") < done.stdout.index("<details>")
    assert "not frozen" in done.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nowhere.csv"], "no such file"),
        (["t.csv", "--arm", "optimiser"], "did you mean 'optimizer'"),
        (["t.csv", "--claim", "muon = adamw"], "ARM < ARM"),
        (["t.csv", "--claim", "muon < adam"], "did you mean 'adamw'"),
        (["t.csv", "--lower", "--higher"], "only one"),
        (["*.txt", "--arm-from", "(", "--metric", "x"], "not a regular expression"),
    ],
)
def test_what_cannot_be_judged_is_refused_in_words(tmp_path: Path, words: list[str], says: str) -> None:
    write(tmp_path / "t.csv", pairs(0.1, 5))
    (tmp_path / "a.txt").write_text("x: 1")
    done = run("judge", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert says in done.stderr


def test_a_claim_is_parsed_or_refused() -> None:
    assert parse_claim("a < 3.2", "loss", ["a"]) == {
        "text": "a < 3.2", "metric": "loss", "arms": "a", "op": "<", "value": 3.2
    }  # fmt: skip
    with pytest.raises(InvalidInput, match="is not an arm"):
        parse_claim("a < b", "loss", ["a"])


def test_the_noise_of_two_sets_is_that_of_the_numbers(tmp_path: Path) -> None:
    random, found = np.random.default_rng(5), []
    for _ in range(40):
        rows = [{"arm": arm, "seed": s, "score": random.normal(5, 0.2)} for arm in SETS for s in range(5)]
        noise = read_noise(gradlab.judge(write(tmp_path / "aa.csv", rows)).measured)
        assert noise is not None
        found.append(noise.spread**2)
    assert np.mean(found) == pytest.approx(0.04, rel=0.2)  # 40 × 8 degrees of freedom: a standard error of 8 %


def test_every_arm_may_be_a_column_of_its_own(tmp_path: Path) -> None:
    table = write(tmp_path / "wide.csv", [{"seed": s, "adamw": 3.3 + s / 100, "muon": 3.2 + s / 90} for s in range(6)])
    result = gradlab.judge(table, arm="adamw, muon", better="lower")
    assert result.verdicts[0].outcome == "reproduced"
    with pytest.raises(InvalidInput, match="column of its own"):
        gradlab.judge(table, better="lower")
    with pytest.raises(InvalidInput, match="did you mean 'muon'"):
        gradlab.judge(table, arm="adamw,muom", better="lower")


def test_columns_as_people_call_them_are_understood(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    rows = [
        {"Method": arm, "Seed": seed, "Accuracy (%)": 90 + gap + random.normal(0, 0.02)}
        for seed in range(8)
        for arm, gap in (("base line", 0.0), ("ours+", 0.1))
    ]
    result = gradlab.judge(write(tmp_path / "é t.csv", rows))
    assert result.verdicts[0].outcome == "reproduced"
    assert "too_small_to_matter" in result.verdicts[0].codes  # half a point is what matters of percents
    with pytest.raises(InvalidInput, match="--lower or --higher"):
        gradlab.judge(
            write(tmp_path / "foo.csv", [{**row, "Accuracy (%)": None, "foo": 1.0} for row in rows]), metric="foo"
        )


def test_many_tasks_and_arms_are_judged_over_all_of_them(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    rows = [
        {"arm": f"m{arm}", "task": f"t{task}", "seed": seed, "score": random.normal(3 * arm, 1)}
        for arm in range(3)
        for task in range(12)
        for seed in range(6)
    ]
    result = gradlab.judge(write(tmp_path / "big.csv", rows))
    assert [verdict.outcome for verdict in result.verdicts] == ["reproduced", "reproduced"]


def test_files_whose_paths_name_no_arm_are_remarked_on(tmp_path: Path) -> None:
    for name in ("a_s1", "a_s2", "b_s1"):
        (tmp_path / f"{name}.txt").write_text("loss: 1.5")
    judged = judge_table([str(tmp_path / "*.txt")], Selection(metric="loss"))
    assert "one_arm_of_paths" in codes(judged)
    with pytest.raises(InvalidInput, match="none of the 3 files"):
        judge_table([str(tmp_path / "*.txt")], Selection(metric="accuracy"))


def test_a_written_nan_is_worst_and_an_empty_cell_is_missing(tmp_path: Path) -> None:
    rows = pairs(-0.05, 8)
    rows[4]["val_loss"], rows[7]["val_loss"] = "nan", ""
    judged = judge_table(write(tmp_path / "t.csv", rows), Selection())
    assert judged.result.measured.counts() == {"done": 15, "failed": 1, "diverged": 1}
    assert "not_numbers" in codes(judged)


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no event files"):
        gradlab.judge(tmp_path, metric="loss")


def test_curves_below_zero_stand_on_a_linear_axis(tmp_path: Path) -> None:
    rows = [
        {"arm": arm, "seed": seed, "step": step, "loss": 1.0 + gap - 0.3 * step + 0.01 * seed}
        for arm, gap in (("x", 0.0), ("y", 0.1))
        for seed in range(5)
        for step in range(6)
    ]
    assert not loss_curves(write(tmp_path / "below.csv", rows)).log_y
    above = [{**row, "loss": float(str(row["loss"])) + 2} for row in rows]
    assert loss_curves(write(tmp_path / "above.csv", above)).log_y


def loss_curves(table: Path) -> Any:
    charts = gradlab.judge(table).charts
    return charts["training_loss"]


def test_no_two_arms_of_a_performance_profile_look_alike(tmp_path: Path) -> None:
    rows = [
        {"arm": f"m{arm}", "task": f"t{task}", "seed": seed, "score": arm + 0.1 * seed}
        for arm in range(11)
        for task in range(2)
        for seed in range(5)
    ]
    chart: Any = gradlab.judge(write(tmp_path / "t.csv", rows)).charts["performance_profiles"]
    assert [line.group for line in chart.lines] == [f"m{arm}" for arm in range(3, 11)]
