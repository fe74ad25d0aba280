"""What the pages about the doctor quote is what the doctor says: the same words, the same numbers to a few percent."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?: × 10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?")
RAISED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
CLOSE = 0.1
"""Another processor rounds differently, and training enlarges it."""
FAULTS = (
    "softmax before cross entropy",
    "a head replaced after the optimizer was built",
    "zero grad forgotten",
    "attention weights thirty times too large",
    "a relu rnn that explodes under sgd",
    "nan only in the backward pass",
)
"""The six examples, in the order in which the page has them."""


def value_of(number: str) -> float:
    size, _, power = number.replace(",", "").partition(" × 10")
    return float(size) * 10.0 ** int(power.translate(RAISED) or 0)


def quoted(block: str) -> list[str]:
    """The pieces of a quotation: it is cut where it says `…`, and broken into lines anywhere."""
    return [piece for piece in (" ".join(piece.split()) for piece in block.split("…")) if piece]


def differences(block: str, said: str) -> list[str]:
    """What a page quotes that was not said."""
    whole, found = " ".join(said.split()), []
    for piece in quoted(block):
        words = NUMBER.split(piece)
        match = re.search(f"({NUMBER.pattern})".join(map(re.escape, words)), whole)
        if match is None:
            found.append(piece)
            continue
        pairs = zip(NUMBER.findall(piece), match.groups(), strict=True)
        found += [f"{a} (is {b})" for a, b in pairs if value_of(a) != pytest.approx(value_of(b), rel=CLOSE)]
    return found


def run(*arguments: str) -> str:
    made = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "1000"},
    )
    assert made.returncode == 0, made.stderr
    return made.stdout


def outputs_of(page: str) -> list[str]:
    """The blocks of a page that quote an output."""
    text = (DOCS / page).read_text(encoding="utf8")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [content for language, content in blocks if not language]


def test_differences_are_seen() -> None:
    assert not differences(
        "it shrinks by a factor of 1.2 × 10⁻³ …\n over 4 layers", "it shrinks by a factor of 0.00121; over 4 layers"
    )
    assert differences("a factor of 12,000 per module", "a factor of 12 per module") == ["12,000 (is 12)"]
    assert differences("it explodes", "it vanishes") == ["it explodes"]


@pytest.mark.docs
@pytest.mark.parametrize("place", range(len(FAULTS)), ids=FAULTS)
def test_an_example_of_the_how_to_is_what_the_doctor_says(place: int) -> None:
    blocks = outputs_of("how-to/my-network-does-not-train.md")
    assert len(blocks) == len(FAULTS)
    assert not differences(blocks[place], run("benchmarks/zoo", "say", FAULTS[place]))


@pytest.mark.docs
def test_the_broken_transformer_is_diagnosed_as_the_page_says() -> None:
    (block,) = (each for each in outputs_of("probe.md") if "broken_transformer.py:broken" in each)
    command, *answer = block.splitlines()
    assert command.startswith("$ gradlab probe examples/broken_transformer.py:broken")
    assert not differences("\n".join(answer), run("-m", "gradlab", "probe", "examples/broken_transformer.py:broken"))


@pytest.mark.docs
def test_the_mended_transformer_is_quiet() -> None:
    said = run("-m", "gradlab", "probe", "examples/broken_transformer.py:mended")
    assert "This pass shows nothing wrong." in said
