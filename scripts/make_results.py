"""Reproduce all write-ups at their full budget and keep what came out: reports, scoreboard, verdicts.

python scripts/make_results.py              # goes on where an earlier call stopped; some hours from nothing
python scripts/make_results.py --no-run     # only what is already in runs/

Reports (Markdown and figures) and the scoreboard go to docs/results, verdicts into the package
(`studies/index/verdicts.json`): `gradlab reproduce --quick` shows them beside claims it leaves untested. Raw data stay
in runs/. The index says with which command, versions and machine each report was made.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from PIL import Image

import gradlab
from gradlab import studies
from gradlab.analysis.findings import findings
from gradlab.report.scoreboard import page

ROOT = Path(__file__).parent.parent
RESULTS, RUNS = ROOT / "docs/results", ROOT / "runs"


def keep(result: gradlab.Result, name: str) -> None:
    """Report and PNG figures of a run, in a folder of its own."""
    folder = RESULTS / name
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "figures").mkdir(parents=True)
    assert result.folder is not None
    shutil.copy(result.folder / "report.md", folder / "report.md")
    for figure in (result.folder / "figures").glob("*.png"):
        with Image.open(figure) as picture:  # few colors: a quarter of the size, and no difference to the eye
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


def verdicts(result: gradlab.Result) -> dict[str, dict[str, str]]:
    """What the package keeps of a full run: the verdict on each claim, by what the claim says."""
    return {
        studies.claim_key(verdict.claim): {
            "claim": verdict.claim.text,
            "verdict": verdict.outcome,
            "words": verdict.words,
            "measured": verdict.measured,
            "reason": verdict.reason,
        }
        for verdict in result.verdicts
    }


def main() -> None:
    """Run, keep, index."""
    if "--no-run" in sys.argv:
        for name in gradlab.list_studies():
            if gradlab.status(RUNS / name).left:
                raise SystemExit(f"{name} is not finished; run without --no-run")
    board = gradlab.reproduce(out=RUNS)
    entries, kept = [], {}
    for name in gradlab.list_studies():
        result = gradlab.open_run(RUNS / name)
        keep(result, name)
        entries.append(entry(result, name))
        kept[name] = verdicts(result)
    studies.KEPT.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf8")
    links = {name: f"{name}/report.md" for name in gradlab.list_studies()}
    (RESULTS / "scoreboard.md").write_text(page(board, links), encoding="utf8")
    head = [
        "# Full runs of the built-in studies",
        "",
        "Made by `python scripts/make_results.py`. [The scoreboard](scoreboard.md) has every claim of the four",
        "write-ups with its verdict. Every report has its figures, its numbers with intervals, the published numbers",
        "beside them, and the command that makes it again.",
        "",
    ]
    (RESULTS / "README.md").write_text("\n".join([*head, *entries]), encoding="utf8")


if __name__ == "__main__":
    main()
