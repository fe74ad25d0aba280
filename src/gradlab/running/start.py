"""Carry out a plan: audit, trials, report. Networks, calls of the user's code and tuned arms all go this way.

Where seeds are added until the claims are settled, rounds follow each other: what was trained says what is trained
next (`analysis/settling.py`). A tuned study is trained in two phases: the candidates of every arm, then the arms at the
values that these chose. All phases write to one folder, and all resume: a process that dies in one of them or between
two leaves results from which the next one makes the same choice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from functools import reduce
from pathlib import Path
from time import monotonic
from typing import Any

from gradlab.analysis.measured import Measured
from gradlab.analysis.online import evidence
from gradlab.analysis.online import settle as settle_claim
from gradlab.analysis.settling import Round, next_round
from gradlab.analysis.tuning import settle
from gradlab.audits.audit import Audit
from gradlab.errors import InvalidInput, nearest
from gradlab.plans.plan import Plan
from gradlab.plans.saving import JUDGING, TUNING
from gradlab.plans.tuning import judged_phase
from gradlab.report.inside.recording import Recording
from gradlab.report.result import Result
from gradlab.report.writing import write_report
from gradlab.runs.coordinator import Runner, Tally, TrialsResult, run_trials
from gradlab.runs.executors.base import Executor
from gradlab.runs.store.environment import environment, together_with
from gradlab.runs.store.folder import RunFolder, names_by_group
from gradlab.runs.store.history import read_history
from gradlab.runs.store.project import FrozenClaim, Project, project_of, standing_of
from gradlab.runs.store.records import Records
from gradlab.runs.store.status import count_finished
from gradlab.tell.answers import verdicts_of
from gradlab.trials.outcome import TrialResult

Trainer = Callable[[Plan], Runner]
"""How the trials of a plan are run: by an executor, or by calling the user's code."""
Auditor = Callable[[Plan], Audit | None]
Record = Callable[[Measured], Recording | None]
"""Records what happens inside two arms of a run."""
Names = Mapping[str, Sequence[str]]
"""Group -> the names of its layers 1, 2, …"""


@dataclass(frozen=True)
class RunOptions:
    """How a run is carried out. Results depend on none of these."""

    out: str | Path | None = None
    """The run's folder: results as they finish, then figures and report. None keeps everything in memory."""
    workers: int | None = None
    """Trials at a time; default: one per core, as far as memory allows."""
    executor: Executor | str = "pool"
    """What runs the trials: `pool`, `inline`, `processes`, `ray`, `slurm`, or one of the user's own."""
    settings: Mapping[str, Any] | None = None
    """The executor's own, such as `{"address": "10.0.0.1:6379"}` for ray."""
    track: Sequence[str] = ()
    """Trackers (`mlflow`, `tensorboard`, `wandb`) that show the trials as they finish, in folders inside `out`."""
    fail_fast: bool = False
    """Stop at the first trial that ends in an error."""
    give_up: int | None = None
    """Stop once so many trials have ended, all of them in an error."""
    force: bool = False
    """Start over; an existing run is kept beside the new one."""
    mixed: bool = False
    """Resume a run that was started under other versions, and accept such workers of a cluster."""
    figures: bool = True
    """Draw figures for the report."""
    budget: float | None = None
    """Where seeds are added until the claims are settled: seconds after which no further round begins."""
    command: str = ""
    """What a user types to make the same results again."""
    project: str | Path | None = None
    """The project in whose ledger the claims are frozen before the first trial, and their outcome is recorded."""
    on_audit: Callable[[Audit], None] | None = None
    """Called with the audit, before the first trial."""
    on_start: Callable[[Tally], None] | None = None
    """Called once per phase with the progress to come."""
    on_round: Callable[[Round], None] | None = None
    """Called before every round of further seeds, and at the end with a round that trains nothing."""
    on_results: Callable[[Sequence[TrialResult]], None] | None = None
    on_stop: Callable[[], None] | None = None
    """Called when the user stops the run."""
    on_report: Callable[[], None] | None = None
    """Called before the report is written, which takes seconds."""

    @staticmethod
    def of(given: Mapping[str, Any], caller: str, without: Sequence[str] = ()) -> RunOptions:
        """The options that a function was called with; an unknown name is refused with the nearest one."""
        names = [option.name for option in fields(RunOptions) if option.name not in without]
        for name in given:
            if name not in names:
                raise InvalidInput(f"{caller}: there is no option {name!r}{nearest(name, names)}")
        return RunOptions(**given)

    @property
    def folder(self) -> Path | None:
        """`out` as a path."""
        return None if self.out is None else Path(self.out)


@dataclass(frozen=True)
class _Trained:
    """What training left: the plan at its final values, what was measured, and the audit of that plan."""

    measured: Measured
    stopped: bool
    environments: tuple[Mapping[str, Any], ...]
    audit: Audit | None


def run_plan(
    plan: Plan,
    trainer: Trainer,
    options: RunOptions,
    *,
    audit: Auditor,
    record: Record | None = None,
    names: Names | None = None,
    afterwards: bool = False,
) -> Result:
    """Run every trial of the plan that has no result yet, and finish.

    `audit` is asked before the first trial, again once the values of tuned arms are chosen, and, if `afterwards`, after
    the last trial: what commands do is seen while they run. `names` is read after
    the last trial: user code names its layers while it runs.
    """
    surroundings, fair = environment(), audit(plan)
    where = options.folder
    start = (
        nullcontext()
        if where is None
        else RunFolder.start(where, plan, surroundings, options.command, force=options.force, mixed=options.mixed)
    )
    with start as folder:
        if folder is not None and fair is not None:
            folder.keep_audit(fair)  # before the first trial: an interrupted run is known to be fair, or not
        if folder is not None and options.project is not None:
            enter_project(Path(options.project), plan, folder, fair)
        trained = _train(plan, trainer, options, folder, fair, audit)
        if afterwards and (fair := audit(plan)) is not None:
            trained = replace(trained, audit=fair)
            if folder is not None:
                folder.keep_audit(fair)
        if folder is None:
            return Result(
                trained.measured,
                reduce(together_with, trained.environments, surroundings),
                options.command,
                audit=trained.audit,
                stopped=trained.stopped,
                layer_names=dict(names or {}),
            )
        whole = not trained.stopped and not trained.measured.plan.pending
        return finish(
            folder,
            trained.measured,
            options,
            audit=trained.audit,
            stopped=trained.stopped,
            record=record if whole else None,
            names=names,
        )


def _train(
    plan: Plan, trainer: Trainer, options: RunOptions, folder: RunFolder | None, fair: Audit | None, audit: Auditor
) -> _Trained:
    """Train the plan; of a study that tunes, the candidates first, then the arms at the chosen values."""
    if plan.tuning is None:
        return _train_until_settled(plan, trainer, options, folder, fair)
    tuned = _run_trials(plan.tuning.plan, trainer, options, folder, TUNING)
    judged = plan if tuned.stopped else settle(plan, tuned.records)
    if tuned.stopped or judged.pending:
        return _Trained(Measured(judged, tuned.records), tuned.stopped, tuned.environments, fair)
    assert judged.tuning is not None
    if folder is not None:
        folder.keep_choice(judged, Measured(judged.tuning.plan, tuned.records).hash, options.command)
    fair = audit(judged)
    if folder is not None and fair is not None:
        folder.keep_audit(fair)
    return _train_until_settled(judged, trainer, options, folder, fair, tuned)


def _train_until_settled(
    plan: Plan,
    trainer: Trainer,
    options: RunOptions,
    folder: RunFolder | None,
    fair: Audit | None,
    tuned: TrialsResult | None = None,
) -> _Trained:
    """Train the arms; where the study asks for it, with more seeds until its claims are settled."""
    began, chunks, environments, number = monotonic(), [], [], 0
    for ended in () if tuned is None else (tuned,):
        chunks, environments = [*ended.records.chunks], [*ended.environments]
    phase = None if tuned is None else JUDGING
    while True:
        ended = _run_trials(judged_phase(plan), trainer, options, folder, phase, chunks)
        chunks, environments = [*chunks, *ended.records.chunks], [*environments, *ended.environments]
        measured = Measured(plan, ended.records if folder is not None else Records(chunks))
        settling = plan.study.until_settled is not None and not plan.quick
        failed = measured.counts()["failed"]
        hopeless = options.give_up is not None and failed == len(measured.trials)
        if ended.stopped or not settling or (options.fail_fast and failed) or hopeless:
            return _Trained(measured, ended.stopped, tuple(environments), fair)
        number += 1
        following = next_round(measured, number)
        late = options.budget is not None and monotonic() - began > options.budget
        if late and not _is_begun(plan, following, ended.records):
            following = replace(following, seeds={})
        if options.on_round is not None:
            options.on_round(following)
        if not following.seeds:
            return _Trained(measured, ended.stopped, tuple(environments), fair)
        plan, phase = plan.with_seeds(following.seeds), following.words
        if folder is not None:
            folder.keep_seeds(plan, following.number, options.command)


def _is_begun(plan: Plan, following: Round, records: Records) -> bool:
    """Whether an earlier call has trained some of this round: it is then part of the run, whatever the budget."""
    before = {trial.id for trial in plan.trials}
    new = {trial.id for trial in plan.with_seeds(following.seeds).trials} - before
    return not new.isdisjoint(records.finished)


def _run_trials(
    plan: Plan,
    trainer: Trainer,
    options: RunOptions,
    folder: RunFolder | None,
    phase: str | None,
    earlier: Sequence[Any] = (),
) -> TrialsResult:
    return run_trials(
        plan,
        trainer(plan),
        folder,
        earlier=Records(earlier),
        phase=phase,
        fail_fast=options.fail_fast,
        give_up=options.give_up,
        on_start=options.on_start,
        on_results=options.on_results,
        on_stop=options.on_stop,
    )


def finish(
    folder: RunFolder,
    measured: Measured,
    options: RunOptions,
    *,
    audit: Audit | None = None,
    stopped: bool = False,
    record: Record | None = None,
    names: Names | None = None,
) -> Result:
    """Write everything that a report needs to the run's folder, then the report; gives the result."""
    ids = {planned.group.name: planned.id for planned in measured.plan.groups}
    folder.keep_layer_names({ids[arm]: layers for arm, layers in (names or {}).items()})
    recording = record(measured) if record is not None and options.figures else None
    if recording is not None:
        folder.keep_microworld(recording.to_json())
    _conclude(folder, measured)
    history = read_history(folder.path)
    result = Result(
        measured,
        folder.environment,
        options.command,
        folder=options.folder,
        audit=audit,
        stopped=stopped,
        notes=(*folder.notes, *history.problems),
        recording=recording,
        layer_names=names_by_group(measured.plan, folder.layer_names),
        history=history,
        project=standing_of(folder.path),
    )
    if options.on_report is not None:
        options.on_report()
    write_report(result.story, folder, figures=options.figures)
    return result


def enter_project(where: Path, plan: Plan, folder: RunFolder, audit: Audit | None) -> None:
    """Freeze the claims of a plan in the ledger of its project, and record the run."""
    project = Project(where)
    done = count_finished(folder.path, plan.all_trials)
    run = project.start(plan, folder.path, say_audit(audit), done)
    project.name_in(folder.path, run)


def say_audit(audit: Audit | None) -> str:
    """What the ledger of a project says of an audit: `fair`, what is wrong, or that there was none."""
    return "none" if audit is None else audit.mark or "fair"


def _conclude(folder: RunFolder, measured: Measured) -> None:
    """Record the verdicts of a run in the ledger of the project that its folder names, if it names one."""
    found = project_of(folder.path)
    if found is None:
        return
    verdicts, known = verdicts_of(measured), evidence(measured)

    def judge(claims: Sequence[FrozenClaim], settled: int) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = []
        for claim, verdict, e in zip(claims, verdicts, known, strict=True):
            way = claim.settled or settle_claim(claim.number, settled, verdict, e)
            settled += way is not None and claim.settled is None
            e_values = {} if e is None else {"e": [e.holds, e.fails, e.same]}
            entries.append({"number": claim.number, "outcome": verdict.outcome, "settled": way, **e_values})
        return entries

    found[0].conclude(found[1], measured.hash, judge)
