"""The committed gallery is what the committed tables tell: a change of wording shows as a change of that page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import gradlab
from gradlab.report.gallery import first_screen, further_sentences
from gradlab.report.story import Story

ROOT = Path(__file__).parents[2]
KEPT = sorted(path.parent for path in (ROOT / "docs/results").glob("*/run/plan.json"))
GALLERY, SENTENCES = ((ROOT / "docs" / name).read_text(encoding="utf8") for name in ("gallery.md", "sentences.md"))


@pytest.mark.thorough
@pytest.mark.parametrize(("tell", "page"), [(first_screen, GALLERY), (further_sentences, SENTENCES)])
@pytest.mark.parametrize("folder", KEPT, ids=lambda folder: folder.parent.name)
def test_the_page_says_what_the_kept_run_says(folder: Path, tell: Callable[[Story], list[str]], page: str) -> None:
    told = "\n".join(tell(gradlab.open_run(folder).story)).rstrip()
    assert told in page, f"python scripts/make_results.py --rebuild writes it again; {folder.parent.name} says:\n{told}"


def test_every_built_in_study_is_in_the_gallery() -> None:
    index = (ROOT / "docs/results/README.md").read_text(encoding="utf8")
    waiting = [line for line in index.splitlines() if line.startswith("Not run in full since")]
    missing = [
        name
        for name in gradlab.list_studies()
        if f"`gradlab run {name}`" not in GALLERY and not any(name in line for line in waiting)
    ]
    assert not missing, f"run them in full, then python scripts/make_results.py --no-run: {missing}"
