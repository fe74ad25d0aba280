"""Run built-in studies at their full budget and keep their reports under docs/results (Markdown and figures).

python scripts/make_results.py                      # every built-in study; goes on where an earlier call stopped
python scripts/make_results.py identity depth       # some of them
python scripts/make_results.py --no-run             # only what is already in runs/

Raw data stay in runs/. The index says with which command, versions and machine each report was made.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from PIL import Image

import gradlab
from gradlab.analysis.findings import findings

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs/results"


def keep(result: gradlab.Result, name: str) -> None:
    """Report and PNG figures of a run, in a folder of its own."""
    folder = RESULTS / name
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "figures").mkdir(parents=True)
    assert result.folder is not None
    shutil.copy(result.folder / "report.md", folder / "report.md")
    for figure in (result.folder / "figures").glob("*.png"):
        with Image.open(figure) as picture:  # few colours: a quarter of the size, and no difference to the eye
            picture.convert("RGB").quantize(128).save(folder / "figures" / figure.name, optimize=True)


def entry(result: gradlab.Result, name: str) -> str:
    """One paragraph of the index."""
    counts = result.measured.counts()
    machine = result.environment
    versions = ", ".join(f"{p} {machine['packages'][p]}" for p in ("gradlab", "numpy", "numba"))
    text = findings(result.measured) or result.answer
    return "\n".join(
        [
            f"## [{name}]({name}/report.md)",
            "",
            f"**{result.study.question}** {text}",
            "",
            f"`{result.command}`: {counts['done']:,} trials; {versions}; {machine['processor']}, "
            f"{machine['cores']} cores; hash `{result.measured.hash}`.",
            "",
        ]
    )


def main() -> None:
    """Run, keep, index."""
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    entries = []
    for name in gradlab.list_studies():
        out = ROOT / "runs" / name
        if "--no-run" not in sys.argv and (not words or name in words):
            print(name, flush=True)
            result = gradlab.run(name, out=out, command=f"gradlab run {name}")
        elif (out / "plan.json").exists():
            result = gradlab.open_run(out)
            result.rewrite()
        else:
            continue
        if result.unfinished:
            print(f"{name}: unfinished, left out")
            continue
        keep(result, name)
        entries.append(entry(result, name))
    head = [
        "# Full runs of the built-in studies",
        "",
        "Made by `python scripts/make_results.py`. Every report has its figures, its numbers with intervals, the",
        "published numbers beside them, and the command that makes it again.",
        "",
    ]
    (RESULTS / "README.md").write_text("\n".join([*head, *entries]), encoding="utf8")


if __name__ == "__main__":
    main()
