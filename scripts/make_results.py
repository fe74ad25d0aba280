"""Reproduce all write-ups at their full budget and store the results: reports, scoreboard, verdicts.

python scripts/make_results.py              # resumes an earlier call; takes some hours from scratch
python scripts/make_results.py --no-run     # uses only the runs already in runs/

Reports (Markdown and figures) and the scoreboard go to docs/results, verdicts to the package
(`studies/index/verdicts.json`): `gradlab reproduce --quick` shows them beside claims that it leaves untested. Raw data
stay in runs/. The index gives the command, versions and machine of each report.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from PIL import Image

import gradlab
from gradlab import studies
from gradlab.analysis.claims.numbers import compare_numbers
from gradlab.analysis.findings import findings
from gradlab.analysis.formatting import number
from gradlab.report.scoreboard import render_scoreboard

ROOT = Path(__file__).parent.parent
RESULTS, RUNS = ROOT / "docs/results", ROOT / "runs"


def keep(result: gradlab.Result, name: str) -> None:
    """Copy the report and PNG figures of a run to its folder in the docs."""
    folder = RESULTS / name
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "figures").mkdir(parents=True)
    assert result.folder is not None
    shutil.copy(result.folder / "report.md", folder / "report.md")
    for figure in (result.folder / "figures").glob("*.png"):
        with Image.open(figure) as picture:  # fewer colors: a quarter of the size without a visible difference
            picture.convert("RGB").quantize(128).save(folder / "figures" / figure.name, optimize=True)


def entry(result: gradlab.Result, name: str) -> str:
    """Return one paragraph of the index."""
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
    """Return the answer to each claim and published number, keyed by their hashes, as stored in the package."""
    claims = {
        studies.claim_key(verdict.claim): {
            "claim": verdict.claim.text,
            "verdict": verdict.outcome,
            "words": verdict.words,
            "measured": verdict.measured,
            "short": verdict.short,
            "reason": verdict.reason,
        }
        for verdict in result.verdicts
    }
    numbers = {
        studies.number_key(row): {
            "published": row.published.text,
            "measured": number(row.measured.median),
            "expected": row.expected,
            "outcome": row.outcome,
        }
        for row in compare_numbers(result.measured)
    }
    return claims | numbers


def main() -> None:
    """Run the studies, copy the reports, write the index."""
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
    (RESULTS / "scoreboard.md").write_text(render_scoreboard(board, links), encoding="utf8")
    head = [
        "# Full runs of the built-in studies",
        "",
        "Made by `python scripts/make_results.py`. [The scoreboard](scoreboard.md) has every claim of the four",
        "write-ups with its verdict. Every report has its figures, its numbers with intervals, the published numbers",
        "beside them, and the command to reproduce it.",
        "",
    ]
    (RESULTS / "README.md").write_text("\n".join([*head, *entries]), encoding="utf8")


if __name__ == "__main__":
    main()
