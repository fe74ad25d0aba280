"""`gradlab figure` as a user types it: lists, draws in every format, answers wrong words with a sentence."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from commands import gradlab as cli

import gradlab


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("figure") / "run"
    axes = {"model.depth": [3, 5, 8], "model.skip": ["none", "identity"]}
    tree: dict[str, Any] = {
        "question": "Does depth matter?",
        "base": {
            "data": {"task": "identity", "dim": 8, "samples": 64},
            "model": {"stem": "none", "head": "none", "depth": 3, "width": 8},
            "train": {"loss": "mse", "optimizer": "adam", "lr": 0.01, "batch": 16, "steps": 8},
        },
        "axes": axes,
        "seeds": 2,
    }
    gradlab.run(tree, out=out, figures=False)
    return out


def test_without_a_name_the_figures_are_listed_with_a_line_each(run: Path) -> None:
    found = cli("figure", str(run), cwd=run.parent)
    assert found.returncode == 0, found.stderr
    lines = found.stdout.splitlines()
    assert any(line.startswith("gradient_at_start_by_layer  ") for line in lines)
    assert all(len(line.split("  ", 1)) == 2 for line in lines)
    listed = json.loads(cli("figure", str(run), "--json", cwd=run.parent).stdout)
    assert list(listed) == [line.split()[0] for line in lines]


@pytest.mark.parametrize(
    ("kind", "start"), [("pdf", b"%PDF"), ("png", b"\x89PNG"), ("svg", b"<?xml"), ("csv", b"layers,")]
)
def test_one_call_draws_what_a_slide_needs(run: Path, tmp_path: Path, kind: str, start: bytes) -> None:
    found = cli(
        "figure", str(run), "gradient_at_start_by_layer", "--facet", "depth", "--color", "skip",
        "--groups", "depth=3|8", "--label", "skip=none=plain", "--title", "Before training",
        "--size", "slide", "--to", kind, cwd=tmp_path,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    assert found.stdout.strip() == f"gradient_at_start_by_layer.{kind}"
    content = (tmp_path / f"gradient_at_start_by_layer.{kind}").read_bytes()
    assert content.startswith(start)
    if kind == "svg":
        text = content.decode()
        assert "Before training" in text
        assert "plain" in text
        assert "<title>model.depth = " in text  # full settings as a tooltip
    if kind == "csv":
        rows = list(csv.DictReader(content.decode().splitlines()))
        assert {row["layers"] for row in rows} == {"3 layers", "8 layers"}
        assert {row["series"] for row in rows} == {"plain", "skip", "plain (theory)", "skip (theory)"}


def test_the_file_name_decides_the_format_and_a_dash_is_stdout(run: Path, tmp_path: Path) -> None:
    made = cli("figure", str(run), "loss_by_axis", "--out", "mine.pdf", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "mine.pdf").read_bytes().startswith(b"%PDF")
    shown = cli("figure", str(run), "loss_by_axis", "--to", "csv", "--out", "-", cwd=tmp_path)
    assert shown.stdout.startswith("series,layers,")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("nothing",), "there is no figure 'nothing'; accepted: "),
        (("loss_by_axis", "--to", "gif"), "--to 'gif': accepted: png, pdf, svg, csv"),
        (("loss_by_axis", "--size", "slid"), "accepted: page, column, slide; did you mean 'slide'?"),
        (("loss_by_axis", "--label", "x"), "write level=text, such as skip=none=plain"),
        (("loss_by_axis", "--groups", "depth=4"), "no group has depth=4; there are 3, 5, 8"),
    ],
)
def test_a_wrong_word_is_answered_with_a_sentence(run: Path, words: tuple[str, ...], sentence: str) -> None:
    found = cli("figure", str(run), *words, cwd=run.parent)
    assert found.returncode == 2
    assert sentence in found.stderr
