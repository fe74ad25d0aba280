"""Write docs/experiments.md and its figures from finished runs of the gallery.

gradlab reproduce gallery --out runs
python scripts/make_experiments.py runs
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import gradlab
from gradlab import studies
from gradlab.analysis.claims.numbers import compare_numbers

DOCS = Path(__file__).parent.parent / "docs"
HEAD = """# Public experiments that everybody knows

Nine experiments from books, papers and code examples, each a study of fewer than 40 lines. `gradlab show NAME` prints
one, `gradlab run NAME` runs it, `gradlab reproduce gallery` runs all of them and resumes where it stopped. Facts and
numbers are those of the publications; what could not be said the same way stands in each study's `limits`. Made by
`python scripts/make_experiments.py RUNS` from runs of these studies.
"""
FIGURES = {
    "gallery-nielsen-gradients": "gradient_at_start_by_layer",
    "gallery-nielsen-weights": "by_seed",
    "gallery-scikit-curves": "training_loss",
    "gallery-batch-norm": "accuracy_curves",
    "gallery-he-thirty": "training_loss",
    "gallery-selu": "training_loss",
    "gallery-highway": "training_loss",
    "gallery-grokking": "accuracy_curves",
}


def entry(name: str, runs: Path) -> list[str]:
    """Question, source, answer, what of the publication holds, and what was tried where it does not."""
    study, note = gradlab.load(name).study, studies.gallery_notes().get(name)
    lines = [f"## {study.question}", "", f"`gradlab run {name}`. {study.source}.", ""]
    if not (runs / name / "report.md").is_file():
        return [*lines, f"Not run to its end for this page. {note or ''}".strip(), ""]
    result = gradlab.open_run(runs / name)
    lines += [f"**{result.answer}**", "", *(f"- {each.claim.text}: {each.words}" for each in result.verdicts)]
    rows = compare_numbers(result.measured)
    if rows:
        fitting = sum(row.outcome == "consistent" for row in rows)
        lines.append(f"- {fitting} of {len(rows)} published numbers lie where one more seed of ours would fall (95 %).")
    lines += [f"- {note}"] if note else []
    figure = runs / name / "figures" / f"{FIGURES[name]}.png"
    if figure.is_file():
        place = DOCS / "experiments" / f"{name}.png"
        place.parent.mkdir(exist_ok=True)
        shutil.copy(figure, place)
        lines += ["", f"![{study.question}](experiments/{name}.png)"]
    return [*lines, ""]


def main(runs: Path) -> None:
    """Write the page."""
    lines = [HEAD]
    for name in studies.gallery().studies:
        lines += entry(name, runs)
    (DOCS / "experiments.md").write_text("\n".join(lines).rstrip() + "\n", encoding="utf8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
