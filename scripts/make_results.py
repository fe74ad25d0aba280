"""Reproduce all write-ups at their full budget and store the results: tables, reports, scoreboard, verdicts.

python scripts/make_results.py              # resumes an earlier call; takes some hours from scratch
python scripts/make_results.py --no-run     # trains nothing: finished runs in runs/, else the tables in docs/results
python scripts/make_results.py --rebuild    # trains nothing: reports from the tables in docs/results
python scripts/make_results.py identity     # only this study, beside what is kept of the others

The studies of the write-ups run until their claims are settled, up to the seeds that `studies/index/writeups.yaml`
allows (chosen before the results), the cheapest first. The others run with their own seeds.

Kept tables are judged by the studies of this version, as far as these need no further trial; the ledger beside the
tables records what changed.

Of every run, the folder without weights goes to docs/results/STUDY/run, with the rows and digits that its report
shows, so that it can be rebuilt by `gradlab report`; the report (Markdown and figures) and the scoreboard lie beside
it. Verdicts and run times go to the package (`studies/index`): `gradlab reproduce --quick` shows them for claims that
it leaves untested. The index gives the command, versions and machine of each report.
"""

from __future__ import annotations

import json
import math
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from PIL import Image

import gradlab
from gradlab import studies
from gradlab.analysis.claims.numbers import compare_numbers
from gradlab.analysis.scoreboard import Scoreboard
from gradlab.analysis.theory import MEASURES
from gradlab.parts import BUILT_IN
from gradlab.plans.freezing import frozen
from gradlab.plans.saving import saved, saved_files
from gradlab.report.markdown import first_screen, further_sentences
from gradlab.report.scoreboard import render_scoreboard
from gradlab.report.story import Story
from gradlab.running.inside import choose_pair, look_again
from gradlab.runs.store.folder import AUDIT, PLAN, RunFolder, condense
from gradlab.runs.store.ledger import LedgerWriter, read_ledger
from gradlab.studies.reproduce import make_scoreboard
from gradlab.tell.findings import findings
from gradlab.words import rounded

ROOT = Path(__file__).parent.parent
RESULTS, RUNS = ROOT / "docs/results", ROOT / "runs"
BITS, MOST_STEPS, LAST_STEPS = 14, 300, 10
"""Of a number by layer that is kept in the repository (four digits), and of the steps of a curve: the last ones all."""
COLORS = 64
"""Of a figure."""


FURTHER = """# What every built-in report says besides

Below the first screen ([gallery](gallery.md)): what else the numbers show, what the design cannot attribute, the
caption of every figure, and the diagnosis of two networks. Made by
`python scripts/make_results.py`, to be read as a page.
"""
HEAD = """# What every built-in study answers

The first screen of each report, without its figure: question, answer, fairness, what else could explain it, claims.
Differences and ratios are medians over seeds of paired ones, so they need not be those of the medians beside them. A
published number matches if one more seed of ours could have given it. Made by
`python scripts/make_results.py` from the full runs ([results](results/README.md)).
"""


def keep_tables(name: str) -> None:
    """Copy a run without its weights, figures and reports: what a report is rebuilt from."""
    folder = RESULTS / name / "run"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(RUNS / name, folder, ignore=shutil.ignore_patterns("figures", "report.*", "tables.tex", "lock"))
    make_small(folder)


def list_measures(study: Any) -> list[str]:
    """The measures by layer that reports and diagnoses of this study look at; empty: all of them are compared."""
    if any(entry.guessed for entry in study.published):
        return []
    figures = [BUILT_IN.get("figure", name) for name in study.figures or ()]
    shown = {str(getattr(figure, "measure", "")) for figure in figures} | {"grad_l2", "dead_share", "update_ratio"}
    claimed = {str(claim.metric) for claim in study.claims} | {entry.metric for entry in study.published}
    return sorted({*MEASURES, *shown, *claimed})


def make_small(folder: Path) -> None:
    """Keep of the tables what reports need, unless that was done before: the ledger says so."""
    ledger = read_ledger(folder)
    assert ledger is not None
    if ledger.of("trials")[-1].data.get("found") == "thinned":
        return
    study = gradlab.open_run(folder).study

    every_step = any(claim.metric == "loss_rises" for claim in study.claims)
    looked_at = list_measures(study)

    def thin(table: str, rows: pa.Table) -> pa.Table:
        if table == "layers":
            rows = rows.filter(pc.is_in(rows["measure"], pa.array(looked_at))) if looked_at else rows
            place, values = rows.column_names.index("value"), rows["value"].to_numpy()
            mantissa, exponent = np.frexp(values)
            short = np.ldexp(np.round(mantissa * 2**BITS) / 2**BITS, exponent)
            return rows.set_column(place, rows.schema.field(place), pa.chunked_array([pa.array(short)]))
        metrics, steps = np.array(rows["metric"].to_pylist(), object), rows["step"].to_numpy()
        wanted = np.ones(len(steps), bool)
        for metric in set(metrics.tolist()):
            own = metrics == metric
            if metric == "loss" and (every_step or "training_loss" not in (study.figures or ())):
                wanted &= ~own | every_step  # a claim counts every step, or no figure shows them
                continue
            there = np.unique(steps[own])
            kept = {*there[:: math.ceil(len(there) / MOST_STEPS)].tolist(), *there[-LAST_STEPS:].tolist()}
            wanted &= ~own | np.isin(steps, list(kept))
        return rows.filter(pa.array(wanted))

    condense(folder, thin)
    (folder / "lock").unlink(missing_ok=True)


def keep(result: gradlab.Result, name: str) -> None:
    """Copy the report and PNG figures of a run to its folder in the docs."""
    folder = RESULTS / name
    shutil.rmtree(folder / "figures", ignore_errors=True)
    (folder / "figures").mkdir(parents=True)
    assert result.folder is not None
    shutil.copy(result.folder / "report.md", folder / "report.md")
    for figure in (result.folder / "figures").glob("*.png"):
        with Image.open(figure) as picture:  # fewer colors: a quarter of the size without a visible difference
            picture.convert("RGB").quantize(COLORS).save(folder / "figures" / figure.name, optimize=True)


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
            "measured": rounded(row.measured.median, 4),
            "expected": row.expected,
            "outcome": row.outcome,
        }
        for row in compare_numbers(result.measured)
    }
    return claims | numbers


def estimate_seconds(name: str) -> float:
    """Return the planned seconds of a study on one core: of one that tunes, also tuning and the untuned arms."""
    plan = gradlab.plan(name)
    tuning = 0.0 if plan.tuning is None else plan.tuning.plan.seconds() + plan.seconds()
    return plan.seconds() + tuning


def seeds_of(name: str) -> dict[str, Any] | None:
    """Until its claims are settled, for a study of a write-up; None: the study's own seeds."""
    most = {study: cap for writeup in studies.writeups().values() for study, cap in writeup.most_seeds.items()}
    return gradlab.until_settled(most=most[name]) if name in most else None


def train(name: str, budget: float | None = None) -> gradlab.Result:
    """Run a study, or what is left of it."""
    seeds = seeds_of(name)
    options = "" if seeds is None else f" --until settled --most-seeds {seeds['to']}"
    command = f"gradlab run {name}{options}"
    return gradlab.run(name, seeds=seeds, out=RUNS / name, command=command, figures=False, budget=budget)


def renew(name: str) -> None:
    """Give a finished run the study, the audit, the report and the micro-world of this version.

    Begins no further round of seeds.
    """
    result = train(name, budget=0)
    if result.recording is None and choose_pair(result.measured.plan) is not None:
        look_again(result, None, None)


def rejudge(name: str) -> bool:
    """Give kept tables the study and the audit of this version; False where the study has trials that are not kept.

    A run without weights cannot be continued, which `renew` would do, so its papers and its ledger are written here.
    """
    folder, plan = RESULTS / name / "run", gradlab.plan(name, seeds=seeds_of(name))
    if plan.study.until_settled is not None:
        kept = gradlab.open_run(folder).measured.plan
        plan = plan.with_seeds({planned.group.name: kept.seed_count(planned) for planned in kept.groups})
    run = RunFolder.open(folder)
    ledger = read_ledger(folder)
    assert ledger is not None
    if ledger.of("plan")[-1].data["id"] == frozen(plan)["id"]:
        return True
    if plan.tuning is not None or not {trial.id for trial in plan.all_trials} <= run.records.finished:
        return False
    LedgerWriter(folder).begin(plan, run.records.chunks)
    place = RunFolder(folder)
    place.write_sealed(PLAN, {**run.plan, **saved(plan)})
    place.write_sealed(AUDIT, gradlab.audit(name).to_json())
    for path, content in saved_files(plan).items():
        place.write_file(path, content)
    return True


def is_finished(folder: Path) -> bool:
    """Whether a run is there and complete."""
    return (folder / "plan.json").is_file() and gradlab.status(folder).finished


def board_of(results: dict[str, gradlab.Result]) -> Scoreboard:
    """Return the scoreboard of results that are there."""
    return make_scoreboard(
        list(studies.writeups().values()), results, quick=False, command="gradlab reproduce --until settled"
    )


def gallery(results: dict[str, gradlab.Result], head: str, tell: Callable[[Story], list[str]]) -> str:
    """Return what all reports say as one page, to be read as such."""
    lines = [head]
    for topic, names in studies.topics().items():
        lines += [f"## {topic}", ""]
        for name in names:
            lines += tell(results[name].story) if name in results else []
    return "\n".join(lines).rstrip() + "\n"


def listed() -> list[str]:
    """The studies with kept results: all but the gallery's, whose page scripts/make_experiments.py writes."""
    return [name for name in gradlab.list_studies() if name not in studies.gallery().studies]


def is_wanted(name: str) -> bool:
    """Whether a study was named on the command line, or none was."""
    named = [word for word in sys.argv[1:] if not word.startswith("-")]
    return not named or name in named


def find_sources() -> dict[str, Path]:
    """Study -> its finished run in runs/, or else the tables that are kept in docs/results."""
    found = {}
    for name in listed():
        own, tables = RUNS / name, RESULTS / name / "run"
        if "--rebuild" not in sys.argv and is_wanted(name) and is_finished(own):
            found[name] = own
        elif tables.is_dir():
            found[name] = tables
    return found


def main() -> None:
    """Run the studies, or open them, copy tables and reports, write scoreboard and index."""
    if "--rebuild" not in sys.argv and "--no-run" not in sys.argv:
        for name in sorted(filter(is_wanted, listed()), key=estimate_seconds):
            train(name)
    sources = find_sources()
    for name, source in sources.items():
        if source == RUNS / name:
            renew(name)
            keep_tables(name)
            continue
        make_small(source)
        if not rejudge(name):
            print(f"{name}: its study has trials that are not kept; judged as it was run. gradlab run {name} runs them")
    results, entries, kept = {}, [], {}
    times = {name: float(f"{estimate_seconds(name):.2g}") for name in gradlab.list_studies()}
    for name, source in sources.items():
        if is_wanted(name):
            with tempfile.TemporaryDirectory() as place:  # the look at a kept run is not recorded in its ledger
                ignored = shutil.ignore_patterns("weights.safetensors", "figures", "report.*")
                folder = Path(shutil.copytree(source, Path(place) / name, ignore=ignored))
                result = gradlab.open_run(folder)
                result.rewrite()
                keep(result, name)
        results[name] = gradlab.open_run(RESULTS / name / "run")
        entries.append(entry(results[name], name))
        kept[name] = verdicts(results[name])
    studies.KEPT.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf8")
    studies.TIMES.write_text(json.dumps(times, indent=1) + "\n", encoding="utf8")
    links = {name: f"{name}/report.md" for name in sources}
    before = [name for name, result in results.items() if result.study.seed != gradlab.load(name).study.seed]
    remark = (
        f"Run with an earlier root seed, before their claims were read again: {', '.join(before)}." if before else ""
    )
    board = render_scoreboard(board_of(results), links)
    if remark:
        title, _, rest = board.partition("\n\n")
        board = f"{title}\n\n{remark}\n\n{rest}"
    (RESULTS / "scoreboard.md").write_text(board, encoding="utf8")
    head = [
        "# Full runs of the built-in studies",
        "",
        "Made by `python scripts/make_results.py`. [The scoreboard](scoreboard.md) has every sentence and number of",
        "the four write-ups with its verdict. Every report has its figures, its numbers with intervals, the published",
        "numbers against them, and the command to reproduce it. The tables of each run, without weights, are in its",
        "folder `run`, reduced to what its report shows (numbers by layer to four digits, the loss of some steps):",
        "`gradlab report docs/results/identity/run` rebuilds the report without training.",
        "",
    ]
    head += [remark, ""] if remark else []
    missing = [name for name in listed() if name not in results]
    if missing:
        head += [f"Not run in full since their claims were frozen: {', '.join(missing)}.", ""]
    (ROOT / "docs/gallery.md").write_text(gallery(results, HEAD, first_screen), encoding="utf8")
    (ROOT / "docs/sentences.md").write_text(gallery(results, FURTHER, further_sentences), encoding="utf8")
    (RESULTS / "README.md").write_text("\n".join([*head, *entries]), encoding="utf8")


if __name__ == "__main__":
    main()
