"""The committed gallery is what the committed tables tell: a change of wording shows as a change of that page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from quoted_numbers import NUMBER, agree

import gradlab
from gradlab.report.markdown import first_screen, further_sentences
from gradlab.report.story import Story

ROOT = Path(__file__).parents[2]
KEPT = sorted(path.parent for path in (ROOT / "docs/results").glob("*/run/plan.json"))
EXPERIMENTS = (ROOT / "docs/experiments.md").read_text(encoding="utf8")
GALLERY, SENTENCES = ((ROOT / "docs" / name).read_text(encoding="utf8") for name in ("gallery.md", "sentences.md"))


@pytest.mark.thorough
@pytest.mark.parametrize(("tell", "page"), [(first_screen, GALLERY), (further_sentences, SENTENCES)])
@pytest.mark.parametrize("folder", KEPT, ids=lambda folder: folder.parent.name)
def test_the_page_says_what_the_kept_run_says(folder: Path, tell: Callable[[Story], list[str]], page: str) -> None:
    told = "\n".join(tell(gradlab.open_run(folder).story)).rstrip()
    again = f"python scripts/make_results.py --rebuild writes it again; {folder.parent.name} says:\n{told}"
    assert differences(told, page) == [], again


def differences(told: str, page: str) -> list[str]:
    """What is told otherwise than on the page: the words, or numbers that differ by more than rounding.

    Theory's numbers are computed when a report is opened, and another processor rounds the last digit differently.
    """
    words, place = NUMBER.sub("\0", told), NUMBER.sub("\0", page)
    start = place.find(words)
    if start < 0:
        return [told]
    numbers = NUMBER.findall(page)[place[:start].count("\0") :]
    pairs = zip(NUMBER.findall(told), numbers, strict=False)
    return [f"{new} (is {old})" for new, old in pairs if not agree(new, old, close=0, power=0)]


def test_a_difference_is_seen() -> None:
    page = "Before 1. The loss falls from 2.50 to 0.333 (4 × 10⁻⁷). After 2."
    assert differences("falls from 2.50 to 0.334 (4 × 10⁻⁷)", page) == []
    assert differences("falls from 2.53 to 0.333 (4 × 10⁻⁷)", page) == ["2.53 (is 2.50)"]
    assert differences("rises from 2.50 to 0.333", page) == ["rises from 2.50 to 0.333"]


def test_every_built_in_study_is_in_the_gallery() -> None:
    index = (ROOT / "docs/results/README.md").read_text(encoding="utf8")
    waiting = [line for line in index.splitlines() if line.startswith("Not run in full since")]
    missing = [
        name
        for name in gradlab.list_studies()
        if f"`gradlab run {name}`" not in GALLERY + EXPERIMENTS and not any(name in line for line in waiting)
    ]
    assert not missing, f"run them in full, then python scripts/make_results.py --no-run: {missing}"
