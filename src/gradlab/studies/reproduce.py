"""Reproduce the public write-ups: audit, run, judge, and make one scoreboard."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from gradlab import studies
from gradlab.analysis.claims.numbers import Comparison, compare_numbers
from gradlab.analysis.claims.verdict import Verdict
from gradlab.analysis.scoreboard import Judged, Scoreboard, ScoredClaim, ScoredNumber, ScoredStudy, Shown
from gradlab.errors import InvalidInput, StudyError, nearest
from gradlab.report.result import Result
from gradlab.report.scoreboard import render_scoreboard
from gradlab.runs.store.folder import RunFolder
from gradlab.spec.base import plain_json
from gradlab.studies.loading import plan


def reproduce(
    names: Sequence[str],
    run_study: Callable[..., Result],
    *,
    quick: bool = False,
    until_settled: bool = False,
    budget: float | None = None,
    out: str | Path = "runs",
    workers: int | None = None,
) -> Scoreboard:
    """Run the studies of these write-ups (default: all), judge every claim, write a scoreboard to `out/reproduce`."""
    if quick and until_settled:
        raise InvalidInput("reproduce: a reduced budget settles nothing; leave out either `quick` or `until_settled`")
    known = {**studies.writeups(), "gallery": studies.gallery()}
    for name in names:
        if name not in known:
            raise StudyError(f"{name!r} is not a write-up; there are {', '.join(known)}{nearest(name, known)}")
    chosen = [known[name] for name in (names or studies.writeups())]
    began, suffix, folder = perf_counter(), "-quick" if quick else "", Path(out)
    caps = {study: writeup.most_seeds[study] for writeup in chosen for study in writeup.studies}
    plans = {
        study: plan(study, quick=quick, seeds={"to": most, "until": "settled"} if until_settled else None)
        for study, most in caps.items()
    }
    options = ["--until", "settled"] if until_settled else ["--quick"] if quick else []
    results: dict[str, Result] = {}
    for study, planned in plans.items():
        most = ["--most-seeds", str(caps[study])] if until_settled else []
        results[study] = run_study(
            planned,
            out=folder / f"{study}{suffix}",
            command=" ".join(["gradlab run", study, *options, *most]),
            workers=workers,
            figures=not quick,
            **({} if budget is None else {"budget": budget}),
        )
        if results[study].stopped:
            break
    command = " ".join(["gradlab reproduce", *names, *options])
    board = make_scoreboard(chosen, results, quick=quick, command=command, seconds=perf_counter() - began)
    place = RunFolder(folder / f"reproduce{suffix}")
    links = {study: f"../{study}{suffix}/report.md" for study in results}
    place.write_text("scoreboard.md", render_scoreboard(board, links))
    place.write_text("scoreboard.json", json.dumps(plain_json(board.to_json()), indent=1, ensure_ascii=False))
    return board


def make_scoreboard(
    chosen: Sequence[studies.WriteUp],
    results: Mapping[str, Result],
    *,
    quick: bool,
    command: str,
    seconds: float = 0.0,
) -> Scoreboard:
    """Return the scoreboard of these write-ups; studies without a result are left out."""
    entries = tuple(
        ScoredStudy(
            writeup.name,
            study,
            "as published" if study in writeup.published else "controlled",
            results[study].study.question,
            results[study].audit,
            study in writeup.unfair,
            results[study].measured.seed_words,
            len(results[study].measured.trials),
            tuple(ScoredClaim(verdict, _kept_verdict(study, verdict)) for verdict in results[study].verdicts),
            tuple(ScoredNumber(row, _kept_number(study, row)) for row in compare_numbers(results[study].measured)),
        )
        for writeup in chosen
        for study in writeup.studies
        if study in results
    )
    by_text = {(entry.study, line.verdict.claim.text): line for entry in entries for line in entry.lines}

    def lines(by_study: Mapping[str, tuple[str, ...]]) -> tuple[tuple[str, ScoredClaim], ...]:
        wanted = ((study, text) for study, texts in by_study.items() for text in texts)
        return tuple((study, by_text[study, text]) for study, text in wanted if (study, text) in by_text)

    confounds = tuple(
        Shown(writeup.name, confound.what, lines(confound.shown))
        for writeup in chosen
        for confound in writeup.confounds
    )
    conclusions = tuple(
        Judged(writeup.name, each.says, lines(each.rests_on), lines(each.limited_by))
        for writeup in chosen
        for each in writeup.conclusions
    )
    titles = {writeup.name: writeup.title for writeup in chosen}
    failed = sum(result.measured.counts()["failed"] for result in results.values())
    stopped = any(result.stopped for result in results.values())
    return Scoreboard(titles, entries, confounds, quick, command, seconds, failed, stopped, conclusions)


def _kept_verdict(study: str, verdict: Verdict) -> Mapping[str, Any] | None:
    """Return the full run's verdict for a claim that a reduced budget left untested."""
    if verdict.outcome != "not tested":
        return None
    return studies.kept_verdicts().get(study, {}).get(studies.claim_key(verdict.claim))


def _kept_number(study: str, row: Comparison) -> Mapping[str, Any] | None:
    """Return the full run's answer for a published number that a reduced budget left untested."""
    if row.outcome != "not tested":
        return None
    return studies.kept_verdicts().get(study, {}).get(studies.number_key(row))
