"""Reading a run: each file is read and checked once, and nothing that was just written is read back."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import gradlab
from gradlab.errors import StoreError
from gradlab.runs.store import files, records
from gradlab.runs.store.files import read_regular


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each file of a chunk was read."""
    counted = Counter[str]()

    def read(path: Path) -> bytes:
        if path.parent.parent.name == "results":
            counted[f"{path.parent.name}/{path.name}"] += 1
        return read_regular(path)

    monkeypatch.setattr(files, "read_regular", read)
    return counted


def test_a_report_reads_every_table_once(tree: dict[str, Any], tmp_path: Path, reads: Counter[str]) -> None:
    gradlab.run(tree, out=tmp_path / "run")
    reads.clear()
    result = gradlab.open_run(tmp_path / "run")
    result.rewrite()
    result.to_json()
    result.curves()
    for table in ("trials", "curves"):
        assert reads[f"000001/{table}.parquet"] == 1
    assert reads["000001/layers.parquet"] == 1


def test_a_run_does_not_read_back_the_tables_it_has_written(
    tree: dict[str, Any], tmp_path: Path, reads: Counter[str]
) -> None:
    result = gradlab.run(tree, out=tmp_path / "run")
    assert [name for name in reads if name.endswith((".parquet", ".json"))] == []
    opened = gradlab.open_run(tmp_path / "run")
    assert opened.measured.hash == result.measured.hash
    assert opened.report() == result.report()
    assert opened.curves().equals(result.curves())
    assert opened.layers().equals(result.layers())


def test_very_large_curves_are_read_metric_by_metric_and_give_the_same(
    tree: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gradlab.run(tree, out=tmp_path / "run")
    once = gradlab.open_run(tmp_path / "run")
    whole = once.measured.curves_by_seed("loss", "plain")
    monkeypatch.setattr(records, "MOST_ROWS", 0)
    again = gradlab.open_run(tmp_path / "run")
    pieces = again.measured.curves_by_seed("loss", "plain")
    assert {seed: [v.tolist() for v in curve] for seed, curve in pieces.items()} == {
        seed: [v.tolist() for v in curve] for seed, curve in whole.items()
    }
    assert "_curves" not in vars(again.measured.records)


def test_damage_done_after_a_run_was_opened_is_found_when_it_is_read(
    tree: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables that are too large to be read and kept when a run is opened."""
    monkeypatch.setattr(records, "MOST_ROWS", 0)
    gradlab.run(tree, out=tmp_path / "run", figures=False)
    result = gradlab.open_run(tmp_path / "run")
    table = tmp_path / "run/results/000001/curves.parquet"
    content = table.read_bytes()
    table.write_bytes(content[:60] + bytes([content[60] ^ 1]) + content[61:])
    with pytest.raises(StoreError, match=r"curves\.parquet is damaged"):
        result.curves()
