"""The output of the command line fits the terminal, and no number is truncated."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout

import pandas as pd
import pytest
from rich.console import Console

from gradlab.cli import show, terminal
from gradlab.cli.output import hang
from gradlab.cli.show import print_table
from gradlab.report.tables import Table

VALUES = ("8.690e-13", "−4.512e-05", "2.33e+12×", "[7.52e+11, 7.20e+12]", "123,456", "NaN")


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120])
def test_a_number_is_never_truncated_on_a_narrow_terminal(width: int) -> None:
    header = ("module", *(f"a_rather_long_name_{i}" for i in range(9)))
    rows = tuple(
        (f"blocks.{i}.attention.projection", *(VALUES[(i + j) % len(VALUES)] for j in range(9))) for i in range(4)
    )
    text = io.StringIO()
    print_table(
        Console(file=text, width=width, no_color=True), Table("Inside", header, rows, numbers=tuple(range(1, 10)))
    )
    lines = text.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert "…" not in text.getvalue()
    found = re.findall(r"8\.690e-13|−4\.512e-05|2\.33e\+12×|7\.52e\+11|7\.20e\+12", text.getvalue())
    shown = sum(cell in ("8.690e-13", "−4.512e-05", "2.33e+12×") for row in rows for cell in row)
    shown += 2 * sum(cell.startswith("[") for row in rows for cell in row)
    assert len(found) == shown
    assert text.getvalue().count("(continued)") >= 1


def test_a_table_that_fits_is_not_split() -> None:
    text = io.StringIO()
    print_table(Console(file=text, width=80), Table("Small", ("group", "loss"), (("plain", "1.000e-05"),)))
    assert "continued" not in text.getvalue()


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        (80, "  name  a question that is longer than it is wise"),
        (49, "  name  a question that is longer than it is\n        wise"),
        (40, "  name  a question that is longer than\n        it is wise"),
    ],
)
def test_long_text_goes_on_below_itself_in_a_narrow_terminal(
    columns: int, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert hang("  name  ", "a question that is longer than it is wise") == shown


def test_text_for_a_pipe_stays_on_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert hang("  name  ", "a question " * 9) == "  name  " + "a question " * 9


def test_text_goes_below_a_head_that_leaves_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert hang("a head of twenty col  ", "what it asks") == "a head of twenty col\n    what it asks"


def test_columns_of_a_frame_that_are_empty_are_left_out_and_powers_of_ten_stay_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [(f"encoder.layers.{n}", "TransformerEncoderLayer", 1.234e-12 * n, 5.6e-11 * n, 7.8e9, None) for n in (1, 2)]
    frame = pd.DataFrame(rows, columns=["name", "kind", "delta", "spread", "grad_l2", "update_ratio"])
    text = io.StringIO()
    monkeypatch.setattr(terminal, "WIDE", 80)
    with redirect_stdout(text):
        show.frames([("Blocks", frame)], "Quiet.")
    printed = text.getvalue()
    assert max(map(len, printed.splitlines())) <= 80
    assert "update_ratio" not in printed
    assert "1.23 × 10⁻¹²" in printed
    assert "1.12 × 10⁻¹⁰" in printed
    assert printed.count("TransformerEncoderLayer") == 4  # no name is folded
