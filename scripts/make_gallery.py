"""Write docs/gallery.md: the first screen of every built-in report as text, to be read as one page.

python scripts/make_gallery.py              # from the tables in docs/results; trains nothing
"""

from __future__ import annotations

from pathlib import Path

import gradlab
from gradlab.studies import topics

ROOT = Path(__file__).parent.parent
RESULTS, OUT = ROOT / "docs/results", ROOT / "docs/gallery.md"
HEAD = """# What every built-in study answers

The first screen of each report, without its figure: question, answer, fairness, what else could explain it, claims.
Made by `python scripts/make_gallery.py` from the tables in [results](results/README.md), which are those of the full
runs.
"""


def first_screen(name: str) -> list[str]:
    """The lines that a reader sees first."""
    story = gradlab.open_run(RESULTS / name / "run").story
    word = f"**{story.answered.word}.** " if story.answered.word else ""
    mark = [f"*{story.audit.mark.capitalize()}.*", ""] if story.audit is not None and story.audit.mark else []
    lines = [f"### {story.question}", "", f"`gradlab run {name}`", "", *mark]
    lines += [f"{word}{' '.join(story.answered.sentences)}", ""]
    for line in (*story.remarks, story.fairness, story.caveats, story.tally):
        lines += [line, ""] if line else []
    return lines


def gallery() -> str:
    """The whole page."""
    lines = [HEAD]
    for topic, names in topics().items():
        lines += [f"## {topic}", ""]
        for name in names:
            lines += first_screen(name)
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    OUT.write_text(gallery(), encoding="utf8")
