"""How every run ends: a study, a comparison of user code and a saved watch all go through `finish`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

from gradlab.analysis.measured import Measured
from gradlab.audits.audit import Audit
from gradlab.plans.outline import Outline
from gradlab.report.history import read_history
from gradlab.report.inside.recording import Recording
from gradlab.report.result import Result
from gradlab.report.writing import write_report
from gradlab.runs.coordinator import ConductResult, Start, Tally, conduct
from gradlab.runs.store.environment import environment
from gradlab.runs.store.folder import RunFolder, names_by_group, together_with
from gradlab.trials.result import TrialResult

Record = Callable[[Measured], Recording | None]
"""Records what happens inside two arms of a run."""
Names = Mapping[str, Sequence[str]]
"""Group -> the names of its layers 1, 2, …"""


@dataclass(frozen=True)
class Conduct:
    """How a run is carried out, whatever it trains."""

    command: str
    """What a user types to make the same results again."""
    out: Path | None = None
    """The run's folder; None keeps the results in memory."""
    force: bool = False
    mixed: bool = False
    fail_fast: bool = False
    figures: bool = True
    on_start: Callable[[Tally], None] | None = None
    on_results: Callable[[Sequence[TrialResult]], None] | None = None
    on_stop: Callable[[], None] | None = None
    on_report: Callable[[], None] | None = None
    """Called before the report is written, which takes seconds."""


def carry_out(
    plan: Outline,
    start: Start,
    how: Conduct,
    *,
    audit: Audit | None = None,
    record: Record | None = None,
    names: Names | None = None,
) -> Result:
    """Run every trial of the plan that has no result yet, and finish.

    `names` is read after the last trial: user code names its layers while it runs.
    """
    surroundings = environment()

    def run_trials(folder: RunFolder | None) -> tuple[Measured, ConductResult]:
        found = conduct(
            plan,
            start,
            folder,
            fail_fast=how.fail_fast,
            on_start=how.on_start,
            on_results=how.on_results,
            on_stop=how.on_stop,
        )
        return Measured(plan, found.records), found

    if how.out is None:
        measured, found = run_trials(None)
        where = reduce(together_with, found.environments, surroundings)
        return Result(measured, where, how.command, audit=audit, stopped=found.stopped, layer_names=dict(names or {}))
    with RunFolder.start(how.out, plan, surroundings, how.command, force=how.force, mixed=how.mixed) as folder:
        if audit is not None:
            folder.keep_audit(audit)  # before the first trial: an interrupted run is known to be fair, or not
        measured, found = run_trials(folder)
        return finish(folder, measured, how, audit=audit, stopped=found.stopped, record=record, names=names)


def finish(
    folder: RunFolder,
    measured: Measured,
    how: Conduct,
    *,
    audit: Audit | None = None,
    stopped: bool = False,
    record: Record | None = None,
    names: Names | None = None,
) -> Result:
    """Write everything that a report needs to the run's folder, then the report; gives the result."""
    ids = {planned.group.name: planned.id for planned in measured.plan.groups}
    folder.keep_layer_names({ids[arm]: own for arm, own in (names or {}).items()})
    recording = record(measured) if record is not None and how.figures and not stopped else None
    if recording is not None:
        folder.keep_microworld(recording.to_json())
    history = read_history(folder.path, required=True)
    result = Result(
        measured,
        folder.environment,
        how.command,
        folder=how.out,
        audit=audit,
        stopped=stopped,
        notes=(*folder.notes, *history.problems),
        recording=recording,
        layer_names=names_by_group(measured.plan, folder.layer_names),
        history=history,
    )
    if how.on_report is not None:
        how.on_report()
    write_report(result.story, folder, figures=how.figures)
    return result
