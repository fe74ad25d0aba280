"""Does a run check out? Its ledger, its files, its results; and some of its trials trained again, bit by bit."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, Literal

from gradlab.analysis.tuning import choose
from gradlab.engines.base import Engine, one_blas_thread
from gradlab.errors import GradlabError, StoreError, described
from gradlab.plans.freezing import frozen
from gradlab.plans.plan import Plan
from gradlab.report.history import Frozen, History, changes_between, read_history
from gradlab.report.result import Result, open_run
from gradlab.runs.store import lock
from gradlab.runs.store.environment import environment, other_numerics
from gradlab.runs.store.ledger import read_ledger
from gradlab.runs.store.status import plan_of
from gradlab.runs.verifying import Check, Stored, check_files, check_written
from gradlab.runs.worker import run_trial
from gradlab.trials.outcome import TrialResult
from gradlab.trials.trial import TrialLabel, group_content

Again = Callable[[Sequence[TrialLabel]], Iterable[TrialResult]]
"""Runs these trials once more."""
Sample = int | Literal["time"] | None
"""How many trials are trained again: so many, all (None), or as many as there is time for."""
SECONDS, FEWEST = 30.0, 3
"""Trials are trained again for so long, and at least so many, unless asked otherwise."""


@dataclass(frozen=True)
class Verification:
    """What was checked of a run, what came of it, and what its ledger tells."""

    run: str
    checks: tuple[Check, ...]
    history: History
    seed: int
    """Of the choice of trials that were trained again."""

    @property
    def findings(self) -> tuple[str, ...]:
        """A sentence for each thing that does not check out."""
        return tuple(finding for check in self.checks for finding in check.findings)

    @property
    def ok(self) -> bool:
        """Whether nothing was found. `complete` says whether everything could be checked."""
        return not self.findings

    @property
    def complete(self) -> bool:
        """Whether everything could be checked."""
        return all(check.done for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "run": self.run,
            "ok": self.ok,
            "complete": self.complete,
            "checks": [check.to_json() for check in self.checks],
            "findings": list(self.findings),
            "remarks": list(self.history.remarks),
            "history": self.history.to_json(),
            "seed": self.seed,
        }


def verify_run(
    folder: str | Path,
    *,
    sample: Sample = "time",
    seed: int | None = None,
    trust: bool = False,
    again: Callable[[Result], Again] | None = None,
) -> Verification:
    """Check a run's folder, and train `sample` of its trials again (None: all, 0: none, "time": for half a minute).

    `again` says how the trials of user code are called; networks of the lab need none.
    """
    path = Path(folder)
    tree = plan_of(path)
    if lock.is_held(path):
        raise StoreError(
            f"{path} is being written to ({lock.describe_holder(lock.holder(path))}); verify it when that has ended"
        )
    history = read_history(path)
    result = open_run(path, trust=trust)
    stored = Stored(path, tree, read_ledger(path), history.frozen)
    chosen = random.SystemRandom().randrange(2**32) if seed is None else seed
    checks = (
        _check_ledger(history),
        _check_plan(result.measured.plan, history),
        check_files(path, tree),
        check_written(path, stored.ledger),
        stored.check_chunks(),
        stored.check_trials(),
        stored.check_accounted(),
        *_check_tuning(result),
        _check_again(result, stored.digests, sample, chosen, again),
    )
    return Verification(str(path), checks, history, chosen)


def _check_ledger(history: History) -> Check:
    if history.missing:
        lost = "ledger.jsonl is missing: what was frozen, changed and looked at is not known."
        return Check("ledger", "the ledger is missing", (lost,))
    if not history.entries and not history.problems:
        return Check("ledger", "claims not frozen: the run was made before there was a ledger", done=False)
    count = len(history.entries)
    summary = f"{count:,} entries in an unbroken chain, from {history.entries[0].at}" if count else "no entries"
    return Check("ledger", summary, tuple(f"{problem}." for problem in history.problems))


def _check_plan(plan: Plan, history: History) -> Check:
    """The plan of the folder is the one that was recorded last, and its ids are those of its settings."""
    findings, summary, done = list(_other_plan(plan, history)), "the plan is the one that was recorded", True
    if not history.entries:
        summary = "the plan is whole"
    if not plan.own_code:
        if not plan.catalog.executed:
            summary, done = f"{summary}; ids of groups with parts of their own need --trust", False
        else:
            wrong, reason = _other_contents(plan)
            findings += [
                f"The settings of {name} do not have the id under which its results are kept." for name in wrong
            ]
            summary, done = (f"{summary}; ids not derived again: {reason}", False) if reason else (summary, True)
    return Check("plan", summary, tuple(findings), done)


def _other_plan(plan: Plan, history: History) -> Iterable[str]:
    plans = [entry for entry in history.entries if entry.kind == "plan"]
    now = frozen(plan)
    if not plans or plans[-1].data.get("id") == now["id"]:
        return
    yield "plan.json is not the plan that the ledger recorded last: it was edited by hand."
    found = changes_between(Frozen.of(plans[-1].data), Frozen.of(now), "", (), 0)
    yield from (f"plan.json: {change.what} ({_detail(change.detail)})." for change in found)


def _detail(detail: Mapping[str, Any]) -> str:
    words = [f"{key}: {value}" for key, value in detail.items() if key not in ("was", "is")]
    return "; ".join(words) or f"{detail.get('was')} → {detail.get('is')}"


def _other_contents(plan: Plan) -> tuple[list[str], str | None]:
    """Groups whose settings, parts and data do not give the content id of the plan; and why it could not be derived."""
    wrong: list[str] = []
    tuning = plan.tuning
    tried = () if tuning is None else (*tuning.plan.groups, *tuning.base.groups)
    for planned in (*(() if plan.pending else plan.groups), *tried):
        try:
            task = planned.config.data.build(plan.catalog)
            content = group_content(planned.config, plan.study.seed, plan.catalog, task)
        except Exception as error:  # data that are not here, or a user part that fails
            return wrong, described(error)
        if content != planned.content:
            wrong.append(planned.group.name)
    return wrong, None


def _check_tuning(result: Result) -> Iterable[Check]:
    """The values of the arms are those that the stored tuning trials choose."""
    plan = result.measured.plan
    tuning = result.story.tuning
    if plan.tuning is None or tuning is None:
        return
    trials = f"{tuning.cost.trials:,} tuning trials"
    if not tuning.complete:
        yield Check("tuning", f"the tuning is not finished ({trials})", done=False)
        return
    best, used = choose(tuning), plan.tuning.chosen or {}
    findings = [
        f"{arm} is judged at {used[arm].words}, but the tuning trials choose {candidate.words}."
        for arm, candidate in best.items()
        if arm in used and used[arm] != candidate
    ]
    words = "; ".join(f"{arm}: {candidate.words}" for arm, candidate in used.items())
    summary = f"{trials}; each arm is judged at the value that they choose ({words})"
    yield Check("tuning", summary if used else f"{trials}; no arm has been judged yet", tuple(findings), bool(used))


# ---------------------------------------------------------------------- trained again


def _check_again(
    result: Result,
    digests: Mapping[str, str],
    sample: Sample,
    seed: int,
    again: Callable[[Result], Again] | None,
) -> Check:
    plan = result.measured.plan
    there = list({trial.id: trial for trial in plan.all_trials if trial.id in digests}.values())
    if sample == 0 or not there:
        return Check("retrained", "no trial was trained again", done=False)
    if refusal := _refusal(result, again):
        return Check("retrained", refusal, done=False)
    most = sample if isinstance(sample, int) else len(there)
    chosen = random.Random(seed).sample(there, min(len(there), most))
    results: list[TrialResult] = []
    began = monotonic()
    try:
        call = _train if again is None else again(result)
        for trial in chosen:
            if sample == "time" and len(results) >= FEWEST and monotonic() - began > SECONDS:
                break
            results += call([trial])
    except GradlabError as error:
        return Check("retrained", f"could not train again: {error}", done=False)
    name = {trial.id: trial.name for trial in chosen}
    other = [name[each.trial.id] for each in results if each.digest != digests[each.trial.id]]
    findings = [f"Trained again, {trial} gives other results than those stored." for trial in other]
    if other and plan.own_code:
        findings.append("Bits of user code may differ from call to call: on a GPU, with threads, with time.")
    of = f"{len(results):,} of {len(there):,} trials"
    return Check("retrained", f"{of} trained again, the same bits", tuple(findings))


def _refusal(result: Result, again: Callable[[Result], Again] | None) -> str | None:
    """Why trials cannot be trained again here; None if they can."""
    plan = result.measured.plan
    if plan.study.watched:
        return "this run is a training that was watched: there is nothing to call again"
    if plan.own_code and again is None:
        return "the results are those of user code; --call MODULE:FUNCTION calls it again"
    if not plan.catalog.executed:
        return "trials use parts that came with the run; --trust runs their code"
    if not result.environment:
        return "it is not known where the run was made, so bits cannot be expected to agree"
    now = environment()
    for known in (result.environment, *result.environment.get("also", ())):
        if others := other_numerics(known, now):
            return f"not trained again: the same trial may give other bits here ({'; '.join(others)})"
    for planned in plan.groups if not plan.own_code else ():
        engine: Engine = planned.config.train.engine.build(plan.catalog)
        if (numerics := engine.numerics_of(planned.config, plan.catalog)) != planned.numerics:
            return f"not trained again: other numerics ({planned.group.name}: {planned.numerics}, now {numerics})"
    return None


def _train(trials: Sequence[TrialLabel]) -> Iterable[TrialResult]:
    with one_blas_thread():
        return [run_trial(trial) for trial in trials]  # type: ignore[arg-type]
