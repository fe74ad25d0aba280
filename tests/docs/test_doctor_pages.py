"""What docs/pytorch.md quotes of the doctor is what it says: the same words, the same numbers to a few percent."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from quoted_numbers import NUMBER, agree

from gradlab.torch.diagnosis import QUIET_PASS

pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/pytorch.md").read_text(encoding="utf8")
FAULTS = (
    "softmax before cross entropy",
    "a head replaced after the optimizer was built",
    "zero grad forgotten",
    "attention weights thirty times too large",
    "a relu rnn that explodes under sgd",
    "nan only in the backward pass",
)
"""The six examples, in the order in which the page has them."""


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
        found += [f"{a} (is {b})" for a, b in pairs if not agree(a, b)]
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


def outputs_of(section: str) -> list[str]:
    """The blocks of a section of the page that quote an output."""
    _, _, text = PAGE.partition(f"\n## {section}\n")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text.partition("\n## ")[0], re.DOTALL | re.MULTILINE)
    return [content for language, content in blocks if not language]


def test_differences_are_seen() -> None:
    assert not differences(
        "it shrinks by a factor of 1.2 × 10⁻³ …\n over 4 layers", "it shrinks by a factor of 0.00121; over 4 layers"
    )
    assert differences("a factor of 12,000 per module", "a factor of 12 per module") == ["12,000 (is 12)"]
    assert differences("by 3 × 10²⁸", "by 3 × 10³⁰") == ["3 × 10²⁸ (is 3 × 10³⁰)"]
    assert not differences("by 3 × 10²⁸", "by 1.1 × 10²⁹")
    assert differences("a share of 0.3", "a share of 0.1") == ["0.3 (is 0.1)"]
    assert differences("it explodes", "it vanishes") == ["it explodes"]


@pytest.mark.docs
@pytest.mark.parametrize("place", range(len(FAULTS)), ids=FAULTS)
def test_an_example_of_the_page_is_what_the_doctor_says(place: int) -> None:
    blocks = outputs_of("My network does not train")
    assert len(blocks) == len(FAULTS)
    assert not differences(blocks[place], run("benchmarks/zoo", "say", FAULTS[place]))


@pytest.mark.docs
def test_the_broken_transformer_is_diagnosed_as_the_page_says() -> None:
    block, _ = outputs_of("The diagnosis")
    command, *answer = block.splitlines()
    assert command.startswith("$ gradlab probe examples/broken_transformer.py:broken")
    assert not differences("\n".join(answer), run("-m", "gradlab", "probe", "examples/broken_transformer.py:broken"))


@pytest.mark.docs
def test_the_mended_transformer_is_quiet() -> None:
    said = run("-m", "gradlab", "probe", "examples/broken_transformer.py:mended")
    assert QUIET_PASS in said
