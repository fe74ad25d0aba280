"""Two runs beside each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gradlab
from gradlab.analysis.against import against
from gradlab.report.tables import against_json, summarize_against, tabulate_results, tabulate_settings


def test_a_run_does_not_differ_from_itself(tree: dict[str, Any]) -> None:
    result = gradlab.run(tree)
    found = against(result.measured, result.measured)
    assert (found.settings, found.only_first, found.only_second) == ((), (), ())
    assert (found.same_trials, found.same_bits) == (4, 4)
    assert "not differ" in summarize_against(found)
    assert tabulate_settings(found) is None
    table = tabulate_results(found)
    assert table is not None
    assert all(row[-1].startswith("0 ") for row in table.rows)


def test_what_differs_in_studies_and_results_is_named(tree: dict[str, Any]) -> None:
    first = gradlab.run(tree)
    changed = {**tree, "arms": {**tree["arms"], "extra": {"model.skip": "rezero"}}}
    second = gradlab.run(changed, seeds=3, overrides={"train.lr": 0.02})
    found = against(first.measured, second.measured)
    assert {(s.where, s.path, s.first, s.second) for s in found.settings} == {
        ("study", "seeds", 2, 3),
        ("plain", "train.lr", 0.01, 0.02),
        ("residual", "train.lr", 0.01, 0.02),
    }
    assert (found.only_first, found.only_second, found.same_trials) == ((), ("extra",), 0)
    row = next(row for row in found.rows if (row.group, row.metric) == ("plain", "final_loss"))
    assert row.comparison is not None
    assert row.comparison.n == 2
    a, b = (r.trials().query("group == 'plain' and seed < 2").final_loss.to_numpy() for r in (first, second))
    assert abs(row.comparison.difference.value - (b - a).mean()) < 1e-12
    assert "3 settings differ." in summarize_against(found)
    assert "second: extra." in summarize_against(found)
    assert against_json(found)["rows"][0]["group"] == "plain"


def test_another_root_seed_is_not_paired(tree: dict[str, Any]) -> None:
    found = against(gradlab.run(tree).measured, gradlab.run(tree, overrides={"seed": 7}).measured)
    assert {row.comparison for row in found.rows} == {None}


def test_other_bits_under_the_same_id_are_counted(tree: dict[str, Any], tmp_path: Path) -> None:
    """What somebody sees who runs the same study on another machine."""
    import pyarrow as pa

    from gradlab.analysis.measured import Measured
    from gradlab.runs.store.records import MemoryChunk, Records

    result = gradlab.run(tree)
    table = result.measured.records.trials
    other = table.set_column(
        table.column_names.index("digest"), "digest", pa.array(["x", *table["digest"].to_pylist()[1:]])
    )
    chunk = result.measured.records.chunks[0].loaded()
    changed = Measured(result.measured.plan, Records([MemoryChunk({**chunk.tables, "trials": other}, {})]))
    found = against(result.measured, changed)
    assert (found.same_trials, found.same_bits) == (4, 3)
