"""A run of a study that tunes: every arm's values are chosen first, then the arms are judged at them.

Both phases write to one folder, and both resume. A process that dies in the first phase, between the two or in the
second leaves results from which the next one makes the same choice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce

from gradlab.analysis.measured import Measured
from gradlab.analysis.tuning import settle
from gradlab.audits.audit import Audit
from gradlab.plans.plan import Plan
from gradlab.plans.saving import JUDGING, TUNING
from gradlab.plans.tuning import judged_phase
from gradlab.report.finish import Conduct, Record, finish
from gradlab.report.result import Result
from gradlab.runs.coordinator import ConductResult, Start, conduct
from gradlab.runs.store.environment import environment
from gradlab.runs.store.folder import RunFolder, together_with
from gradlab.runs.store.records import Records

StartPlan = Callable[[Plan], Start]
"""How the trials of a plan are run."""
AuditPlan = Callable[[Plan], Audit | None]


def carry_out_tuned(plan: Plan, start: StartPlan, how: Conduct, *, audit: AuditPlan, record: Record) -> Result:
    """Tune, choose, judge, and finish. `audit` is asked before the first trial, and again at the chosen values."""
    surroundings = environment()
    fair = audit(plan)
    if how.out is None:
        judged, measured, ended, fair = _run_phases(plan, start, how, None, audit, fair)
        where = reduce(together_with, ended.environments, surroundings)
        return Result(measured, where, how.command, audit=fair, stopped=ended.stopped)
    with RunFolder.start(how.out, plan, surroundings, how.command, force=how.force, mixed=how.mixed) as folder:
        if fair is not None:
            folder.keep_audit(fair)
        judged, measured, ended, fair = _run_phases(plan, start, how, folder, audit, fair)
        whole = None if judged.pending else record
        return finish(folder, measured, how, audit=fair, stopped=ended.stopped, record=whole)


def _run_phases(
    plan: Plan, start: StartPlan, how: Conduct, folder: RunFolder | None, audit: AuditPlan, fair: Audit | None
) -> tuple[Plan, Measured, ConductResult, Audit | None]:
    assert plan.tuning is not None
    tuned = _conduct(plan.tuning.plan, start, how, folder, TUNING)
    judged = plan if tuned.stopped else settle(plan, tuned.records)
    if tuned.stopped or judged.pending:
        return judged, Measured(judged, tuned.records), tuned, fair
    assert judged.tuning is not None
    if folder is not None:
        folder.keep_choice(judged, Measured(judged.tuning.plan, tuned.records).hash, how.command)
    fair = audit(judged)
    if folder is not None and fair is not None:
        folder.keep_audit(fair)
    found = _conduct(judged_phase(judged), start, how, folder, JUDGING)
    records = found.records if folder is not None else Records([*tuned.records.chunks, *found.records.chunks])
    both = replace(found, environments=(*tuned.environments, *found.environments))
    return judged, Measured(judged, records), both, fair


def _conduct(plan: Plan, start: StartPlan, how: Conduct, folder: RunFolder | None, phase: str) -> ConductResult:
    return conduct(
        plan,
        start(plan),
        folder,
        phase=phase,
        fail_fast=how.fail_fast,
        on_start=how.on_start,
        on_results=how.on_results,
        on_stop=how.on_stop,
    )
