"""Exports: the numbers of a run in other tools' formats."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

import gradlab
from gradlab.errors import InvalidInput
from gradlab.report.export import escape, render_latex_table
from gradlab.report.tables import Table


@pytest.fixture(scope="module")
def result() -> gradlab.Result:
    from gradlab.testing.base import small_tree

    tree = small_tree()
    tree["arms"] = {"a_b & 50 %": {}, "x^2 <$y$> \\": {"model.skip": "identity"}}
    return gradlab.run(tree)


@pytest.mark.parametrize("table", ["summary", "trials", "curves", "layers"])
def test_every_table_in_every_format_has_the_same_rows(table: str, result: gradlab.Result) -> None:
    rows = result.arrow(table).num_rows
    assert rows > 0
    assert len(json.loads(result.export("json", table))) == rows
    assert len(pd.read_csv(io.BytesIO(result.export("csv", table)))) == rows
    assert pq.read_table(io.BytesIO(result.export("parquet", table))).equals(result.arrow(table))


def test_latex_has_booktabs_rules_intervals_and_no_markup_of_the_users(result: gradlab.Result) -> None:
    text = result.export("latex").decode()
    for rule in (r"\toprule", r"\midrule", r"\bottomrule", r"\begin{tabular}{lrr"):
        assert rule in text
    assert r"a\_b \& 50 \% & 2 &" in text
    assert r"x\textasciicircum{}2 \textless{}\$y\$\textgreater{} \textbackslash{} & 2 &" in text
    center = result.table().query("metric == 'final_loss'")["center"].iloc[0]
    assert f"{center:.4g} (" in text  # of two seeds there is a range, no interval


def test_powers_of_ten_are_set_as_such() -> None:
    assert escape("1.07 × 10⁻⁹ … 10¹⁰") == r"1.07 $\times$ $10^{-9}$ \dots{} $10^{10}$"
    assert escape("a_1e-5x") != "a_1e-5x"


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_latex_compiles(result: gradlab.Result, tmp_path: Path) -> None:
    body = result.export("latex").decode()
    page = "\\documentclass{article}\\usepackage{booktabs}\\begin{document}" + body + "\\end{document}"
    (tmp_path / "page.tex").write_text(page)
    subprocess.run(["pdflatex", "-halt-on-error", "page.tex"], cwd=tmp_path, check=True, capture_output=True)


@pytest.mark.parametrize(
    ("to", "table", "message"),
    [("xls", "summary", "accepted: csv, parquet"), ("csv", "trails", "'trials'"), ("latex", "curves", "leave --table")],
)
def test_what_cannot_be_exported_is_refused(to: str, table: str, message: str, result: gradlab.Result) -> None:
    with pytest.raises(InvalidInput, match=message):
        result.export(to, table)


def test_frames_of_a_run_from_its_folder_are_those_of_the_run(tmp_path: Path) -> None:
    from gradlab.testing.base import small_tree

    tree: dict[str, Any] = {**small_tree(), "figures": []}
    ran = gradlab.run(tree, out=tmp_path / "run")
    opened = gradlab.open_run(tmp_path / "run")
    for name in ("trials", "curves", "layers", "table"):
        pd.testing.assert_frame_equal(getattr(ran, name)(), getattr(opened, name)())
    assert {**opened.to_json(), "history": None} == {**ran.to_json(), "history": None}
    assert opened.history is not None
    assert opened.history.looks == 1  # writing the report


def test_a_row_that_begins_with_a_bracket_or_a_star_is_no_argument_of_the_line_break() -> None:
    rows = (("[2cm] wide", "1"), ("* starred", "2"), ("plain", "3"), (" [1em] later", "4"))
    text = render_latex_table(Table("T", ("group", "n"), rows), "t")
    lines = [line.strip() for line in text.splitlines()]
    assert r"{}[2cm] wide & 1 \\" in lines
    assert r"{}* starred & 2 \\" in lines
    assert r"plain & 3 \\" in lines
    assert r"{} [1em] later & 4 \\" in lines


def test_csv_holds_names_as_they_are(tmp_path: Path) -> None:
    """The policy: data for programs are not altered; docs/security.md says so."""
    from gradlab.testing.base import small_tree

    tree = {**small_tree(), "arms": {"=1+1": {}, "@x": {"model.skip": "identity"}}, "seeds": 1}
    frame = pd.read_csv(io.BytesIO(gradlab.run(tree).export("csv", "trials")))
    assert list(frame["group"]) == ["=1+1", "@x"]
