"""Does a run check out? Its ledger, its files, its results; and some of its trials trained again, bit by bit."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import Any, Literal

import numpy as np

from gradlab.analysis.tuning import choose
from gradlab.arithmetic import one_blas_thread
from gradlab.engines.base import Engine
from gradlab.errors import GradlabError, StoreError, described
from gradlab.facts import Fact
from gradlab.network.layout import Layout
from gradlab.plans.freezing import frozen
from gradlab.plans.plan import Plan
from gradlab.plans.saving import part_files, trial_ids
from gradlab.report.result import Result, open_run
from gradlab.runs.store.environment import environment, other_numerics
from gradlab.runs.store.files import describe_holder, is_held, read_regular, read_sealed
from gradlab.runs.store.folder import AUDIT, ENVIRONMENT, LAYER_NAMES, MICROWORLD, PLAN, plan_of
from gradlab.runs.store.history import Frozen, History, changes_between, read_history
from gradlab.runs.store.ledger import Ledger, committed_chunks, read_ledger, recorded_files
from gradlab.runs.store.records import Chunk, Records, read_chunks
from gradlab.runs.store.tables import COLUMNS, Tensors
from gradlab.runs.worker import run_trial
from gradlab.tell.history import history_json, tell_history
from gradlab.trials.metrics import METRICS
from gradlab.trials.outcome import Curve, LayerTable, Outcome, Snapshot, TrialResult, digest
from gradlab.trials.trial import TrialLabel, group_content, trial_id
from gradlab.words import counted, listed

Again = Callable[[Sequence[TrialLabel]], Iterable[TrialResult]]
"""Runs these trials once more."""
Sample = int | Literal["time"] | None
"""How many trials are trained again: so many, all (None), or as many as there is time for."""
SECONDS, FEWEST = 30.0, 3
"""Trials are trained again for so long, and at least so many, unless asked otherwise."""
READ_BACK = (ENVIRONMENT, AUDIT, MICROWORLD, LAYER_NAMES)
"""Files beside the plan that reports are made from."""
SHOWN = 5
"""Trials that a finding names before it says how many more there are."""
WHOLE = ("steps_to_target", "collapsed", "diverged_step", "parameters", "flops")
"""Metrics of a trial that are whole numbers: tables hold them as floats, and a digest tells the two apart."""
EXACT = 2.0**53
"""From here on a float no longer holds every whole number."""


@dataclass(frozen=True)
class Check:
    """One thing that was checked, with a fact for each thing that does not check out."""

    name: str
    summary: str
    facts: tuple[Fact, ...] = ()
    done: bool = True
    """False where it could not be checked; `summary` says why."""

    @property
    def findings(self) -> tuple[str, ...]:
        """The facts in sentences."""
        return tuple(fact.words for fact in self.facts)

    @property
    def result(self) -> Literal["ok", "failed", "not checked"]:
        """How it ended."""
        return "failed" if self.findings else "ok" if self.done else "not checked"

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return {
            "check": self.name,
            "result": self.result,
            "summary": self.summary,
            "findings": list(self.findings),
            "facts": [fact.to_json() for fact in self.facts],
        }


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
    def remarks(self) -> tuple[str, ...]:
        """What its ledger tells."""
        return tuple(fact.words for fact in tell_history(self.history))

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
            "remarks": list(self.remarks),
            "history": history_json(self.history),
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
    if is_held(path):
        raise StoreError(f"{path} is being written to ({describe_holder(path)}); verify it when that has ended")
    history = read_history(path)
    result = open_run(path, trust=trust)
    stored = _StoredResults(path, tree, read_ledger(path), whole=history.frozen)
    chosen = random.SystemRandom().randrange(2**32) if seed is None else seed
    checks = (
        _check_ledger(history),
        _check_plan(result.measured.plan, history),
        _check_files(path, tree),
        _check_report(path, stored.ledger),
        stored.check_chunks(),
        stored.check_trials(result.measured.plan),
        stored.check_accounted(),
        *_check_tuning(result),
        _check_again(result, stored.digests, sample, chosen, again),
    )
    return Verification(str(path), checks, history, chosen)


def _check_ledger(history: History) -> Check:
    if history.missing:
        lost = "ledger.jsonl is missing: what was frozen, changed and looked at is not known."
        return Check("ledger", "the ledger is missing", (_wrong("ledger_missing", lost),))
    if not history.entries and not history.problems:
        return Check("ledger", "claims not frozen: the run was made before there was a ledger", done=False)
    count = len(history.entries)
    summary = f"{count:,} entries in an unbroken chain, from {history.entries[0].at}" if count else "no entries"
    return Check("ledger", summary, tuple(_wrong("ledger_broken", f"{problem}.") for problem in history.problems))


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
            said = "The settings of {} do not have the id under which its results are kept."
            findings += [_wrong("settings_edited", said.format(name), name) for name in wrong]
            summary, done = (f"{summary}; ids not derived again: {reason}", False) if reason else (summary, True)
    return Check("plan", summary, tuple(findings), done)


def _other_plan(plan: Plan, history: History) -> Iterable[Fact]:
    plans = [entry for entry in history.entries if entry.kind == "plan"]
    now = frozen(plan)
    if not plans or plans[-1].data.get("id") == now["id"]:
        return
    yield _wrong("plan_edited", "plan.json is not the plan that the ledger recorded last: it was edited by hand.")
    changes = changes_between(Frozen.of(plans[-1].data), Frozen.of(now), "", (), 0)
    for change in changes:
        yield _wrong(change.what.replace(" ", "_"), f"plan.json: {change.what} ({_detail(change.detail)}).")


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
    said = "{} is judged at {}, but the tuning trials choose {}."
    findings = [
        _wrong("other_choice", said.format(arm, used[arm].words, candidate.words), arm)
        for arm, candidate in best.items()
        if arm in used and used[arm] != candidate
    ]
    words = "; ".join(f"{arm}: {candidate.words}" for arm, candidate in used.items())
    summary = f"{trials}; each arm is judged at the value that they choose ({words})"
    yield Check("tuning", summary if used else f"{trials}; no arm has been judged yet", tuple(findings), bool(used))


# ---------------------------------------------------------------------- files


def _check_files(folder: Path, tree: Mapping[str, Any]) -> Check:
    """Every JSON file that is read back holds its own checksum, and part files are those of the plan."""
    findings, count = [], 0
    for name in (PLAN, *READ_BACK):
        try:
            count += read_sealed(folder / name) is not None
        except StoreError as error:
            findings.append(_wrong("file_damaged", f"{error}.", name))
    for part in part_files(tree, folder):
        count += 1
        findings += _compare_file(Path(part.path), part.sha256, "is not the part file that the run was made with.")
    return Check("files", f"{counted(count, 'file')} hold what was written", tuple(findings))


def _check_report(folder: Path, ledger: Ledger | None) -> Check:
    """The files for readers and what they are made from are those that were written; a removed report is no edit."""
    files = {} if ledger is None else recorded_files(ledger)
    if not files:
        return Check("report", "no look has recorded the hashes of its report", done=False)
    edited = "is not what was written: it was edited since, or its writing was interrupted; "
    remedies = {
        True: "rerun the study to write it again.",
        False: f"`gradlab report {folder}` writes the report again.",
    }
    present = [name for name in sorted(files) if (folder / name).exists()]
    findings = [
        finding
        for name in present
        for finding in _compare_file(folder / name, files[name], edited + remedies[name in READ_BACK])
    ]
    if AUDIT in files and AUDIT not in present:
        words = f"{folder / AUDIT} was removed: whether the comparison is fair can no longer be read."
        findings.append(_wrong("audit_removed", words, AUDIT))
    gone = f"; {len(files) - len(present):,} removed" if len(present) < len(files) else ""
    summary = f"{counted(len(present), 'file')} of report and study as they were written{gone}"
    return Check("report", summary, tuple(findings))


def _compare_file(path: Path, expected: str, other: str) -> list[Fact]:
    """The finding on a file with another hash than expected, or on one that cannot be read."""
    try:
        same = sha256(read_regular(path)).hexdigest() == expected
    except OSError as error:
        return [_wrong("file_unreadable", f"{path} cannot be read: {error.strerror or error}.", path.name)]
    return [] if same else [_wrong("file_edited", f"{path} {other}", path.name)]


def _wrong(code: str, words: str, subject: str = "", **numbers: float) -> Fact:
    return Fact(code, words, subject, "problem", numbers)


# ---------------------------------------------------------------------- results


class _StoredResults:
    """The results of a folder beside its plan and its ledger."""

    def __init__(self, folder: Path, tree: Mapping[str, Any], ledger: Ledger | None, *, whole: bool) -> None:
        self.ledger = ledger
        self._whole = whole
        """Whether the ledger saw the run from its beginning, so that whatever it does not know is foreign."""
        self._chunks, damaged = read_chunks(folder, Chunk.verify, StoreError)
        self._damaged = {path.name: str(error) for path, error in damaged.items()}
        records = Records(self._chunks)
        self.digests = {trial: records.digests[trial] for trial in records.finished}
        """Trial -> digest of its stored result, failures aside."""
        self._committed = {} if ledger is None else committed_chunks(ledger)
        self._trials = _known_trials(tree, ledger)

    def _name(self, trial: str) -> str:
        """A trial as people know it."""
        if trial not in self._trials:
            return f"trial {trial}"
        names, seed = self._trials[trial]
        return f"{min(names)} · seed {seed}"

    def _list(self, trials: Iterable[str]) -> str:
        """Some trials by name."""
        return listed([self._name(trial) for trial in dict.fromkeys(trials)], SHOWN)

    def check_chunks(self) -> Check:
        """Every chunk is whole, and the one that was recorded; none that was recorded is missing."""
        findings = [_wrong("chunk_damaged", f"{error}.", name) for name, error in self._damaged.items()]
        summary = f"{counted(len(self._chunks), 'chunk')}, with every byte as it was written"
        if self.ledger is None:
            return Check("chunks", f"{summary}; without a ledger, removed ones cannot be seen", tuple(findings))
        for chunk in self._chunks:
            entry = self._committed.get(chunk.path.name)
            if entry is not None and entry["manifest"] != chunk.sha256:
                findings.append(_wrong("chunk_rewritten", self._describe_rewritten(chunk, entry), chunk.path.name))
        present = {chunk.path.name for chunk in self._chunks} | self._damaged.keys()
        for name in self._committed:
            if name in present:
                continue
            trials = self._rows(name)
            count = counted(len(trials), "result")
            words = f"Chunk {name} was committed and is gone, with {count}: {self._list(trials)}."
            findings.append(_wrong("chunk_gone", words, name, trials=len(trials)))
        extra = sorted(chunk.path.name for chunk in self._chunks if chunk.path.name not in self._committed)
        if len(extra) > 1 or any(extra[0] < name for name in self._committed if extra):
            said = "Chunk {} is not in the ledger: it was put there by hand, or its entry was removed."
            findings += [_wrong("chunk_unknown", said.format(name), name) for name in extra]
        elif extra:
            summary += f"; {extra[0]} is not recorded yet, as a killed process leaves it"
        return Check("chunks", summary, tuple(findings))

    def _rows(self, chunk: str) -> dict[str, str]:
        """Trial -> digest, as the ledger has it of a chunk."""
        return {str(row[0]): row[1] for row in self._committed.get(chunk, {}).get("trials", ())}

    def _describe_rewritten(self, chunk: Chunk, entry: Mapping[str, Any]) -> str:
        was, now = self._rows(chunk.path.name), Records([chunk]).digests
        changes = {
            "without": [trial for trial in was if trial not in now],
            "with another digest of": [trial for trial in now if trial in was and now[trial] != was[trial]],
            "with a foreign": [trial for trial in now if trial not in was],
        }
        words = [f"{what} {self._list(trials)}" for what, trials in changes.items() if trials]
        return (
            f"Chunk {chunk.path.name} is not the one that was committed: it was written again "
            f"{'; '.join(words) or 'with other numbers for the same trials'}."
        )

    def check_trials(self, plan: Plan) -> Check:
        """Every row has the id that its plan derives, and numbers that give its digest."""
        findings: list[Fact] = []
        foreign, edited, unsure, count = [], [], 0, 0
        for chunk in self._chunks:
            for row in chunk.table("trials").select(["trial", "group", "seed"]).to_pylist():
                count += 1
                names, seed = self._trials.get(row["trial"], (None, None))
                if names is None:
                    foreign.append(row["trial"])
                elif row["seed"] != seed or (self._whole and row["group"] not in names):
                    says = f"{chunk.path}: a row that says {row['group']} · seed {row['seed']}"
                    words = f"{says} has the id of {self._name(row['trial'])}."
                    findings.append(_wrong("row_of_another_trial", words, chunk.path.name))
            for trial, fits in _compare_digests(chunk, plan).items():
                unsure += fits is None
                edited += [trial] if fits is False else []
        if edited:
            words = f"The stored numbers are not those of the digest: {self._list(edited)}. They were edited."
            findings.append(_wrong("results_edited", words, self._name(edited[0]), trials=len(edited)))
        if foreign and self._whole:
            words = f"Results of trials that no plan of this run has: {', '.join(foreign[:SHOWN])}."
            findings.append(_wrong("foreign_results", words, foreign[0], trials=len(foreign)))
        summary = f"{counted(count, 'result')} under the id of settings and seed"
        summary += f"; {count - unsure:,} digests computed again" if unsure < count else ""
        if unsure:
            summary += f"; {unsure:,} digests cannot be computed from what is stored (of user code, or without weights)"
        return Check("trials", summary, tuple(findings))

    def check_accounted(self) -> Check:
        """Every result that was ever recorded is still there, with the same digest."""
        if self.ledger is None:
            return Check("complete", "the run has no ledger, so nobody knows which results it had", done=False)
        recorded: dict[str, str] = {}
        for entry in self.ledger.of("trials"):
            for trial, digest_then, *status in entry.data["trials"]:
                if status != ["failed"]:
                    recorded.setdefault(trial, digest_then)
        hidden = {trial for chunk in self._damaged for trial in self._rows(chunk)}
        gone = [trial for trial in recorded if trial not in self.digests and trial not in hidden]
        other = [trial for trial, then in recorded.items() if self.digests.get(trial, then) != then]
        findings = []
        if gone:
            words = f"Results that were committed are gone: {self._list(gone)}."
            findings.append(_wrong("results_gone", words, self._name(gone[0]), trials=len(gone)))
        if other:
            words = f"Results are not those that were committed first: {self._list(other)}."
            findings.append(_wrong("results_replaced", words, self._name(other[0]), trials=len(other)))
        return Check("complete", f"every result that was recorded is there ({len(recorded):,})", tuple(findings))


def _known_trials(tree: Mapping[str, Any], ledger: Ledger | None) -> dict[str, tuple[set[str], int]]:
    """Trial id -> the names its group had, and its seed: of every plan that the run ever had."""
    trials: dict[str, tuple[set[str], int]] = {}
    for identity, (name, seed) in trial_ids(tree).items():
        trials.setdefault(identity, (set(), seed))[0].add(name)
    plans = [entry.data for entry in (ledger.of("plan", "tuned") if ledger is not None else ())]
    for plan in (*plans, *(data["tuning"] for data in plans if data.get("tuning"))):
        for seed in plan["seeds"]:
            for group in plan["groups"]:
                trials.setdefault(trial_id(group["id"], seed), (set(), seed))[0].add(group["name"])
    return trials


# ---------------------------------------------------------------------- digests
#
# A digest is computed again from what a chunk stores: an edited number no longer fits the digest beside it. Of user
# code, neither the order of its metrics nor which of them were None or whole numbers is stored, so it is not judged;
# nor is a whole number that only a part of the user's can have returned.


NO_CURVES = (Curve("loss", np.empty(0, np.int64), np.empty(0)),)
"""Of a trial of no steps."""
NO_LAYERS = LayerTable(np.empty(0, np.int64), np.empty(0, np.int64), (), np.empty(0))


def _compare_digests(chunk: Chunk, plan: Plan) -> dict[str, bool | None]:
    """Trial -> whether its digest is that of its stored numbers; None where that cannot be told."""
    table = chunk.table("trials")
    curves, layers = _curves(chunk.table("curves")), _layers(chunk.table("layers"))
    snapshots = chunk.loaded().snapshots
    names = [name for name in table.column_names if name not in COLUMNS]
    fits: dict[str, bool | None] = {}
    for row in table.to_pylist():
        trial = row["trial"]
        if row["status"] == "failed":
            fits[trial] = digest(trial, None, row["error"]) == row["digest"]
            continue
        if plan.own_code:
            fits[trial] = None
            continue
        metrics = {name: _with_kind(name, row[name]) for name in names}
        outcome = Outcome(
            row["status"],
            metrics,
            curves.get(trial, NO_CURVES),
            layers.get(trial, NO_LAYERS),
            np.empty(0),
            _snapshots(snapshots.get(trial, {})),
        )
        same = digest(trial, outcome, None) == row["digest"]
        unsure = chunk.without_weights or any(
            abs(value) >= EXACT or (plan.catalog.files and name not in METRICS and float(value).is_integer())
            for name, value in metrics.items()
            if value is not None
        )
        fits[trial] = None if unsure and not same else same
    return fits


def _with_kind(name: str, value: float | None) -> float | int | None:
    whole = value is not None and name in WHOLE and float(value).is_integer()
    return int(value) if whole and value is not None else value


def _curves(table: Any) -> dict[str, tuple[Curve, ...]]:
    """Trial -> its curves, in the order in which they were written."""
    curves: dict[str, tuple[Curve, ...]] = {}
    for (trial, metric), rows in table.to_pandas().groupby(["trial", "metric"], sort=False, observed=True):
        curve = Curve(metric, rows["step"].to_numpy(), rows["value"].to_numpy())
        curves[trial] = (*curves.get(trial, ()), curve)
    return curves


def _layers(table: Any) -> dict[str, LayerTable]:
    """Trial -> what was measured in its layers, in the order in which it was written."""
    groups = table.to_pandas().groupby("trial", sort=False, observed=True)
    return {
        trial: LayerTable(
            rows["step"].to_numpy(), rows["layer"].to_numpy(), tuple(rows["measure"]), rows["value"].to_numpy()
        )
        for trial, rows in groups
    }


def _snapshots(steps: Mapping[int, Tensors]) -> tuple[Snapshot, ...]:
    snapshots = []
    for step, tensors in sorted(steps.items()):
        running = {name: tensor for name, tensor in tensors.items() if ".running_" in name}
        flat = [np.ravel(tensor) for name, tensor in tensors.items() if name not in running]
        theta = np.concatenate(flat) if flat else np.empty(0, np.float32)
        snapshots.append(Snapshot(step, theta, Layout(()), running))
    return tuple(snapshots)


# ---------------------------------------------------------------------- trained again


def _check_again(
    result: Result,
    digests: Mapping[str, str],
    sample: Sample,
    seed: int,
    again: Callable[[Result], Again] | None,
) -> Check:
    plan = result.measured.plan
    trials = list({trial.id: trial for trial in plan.all_trials if trial.id in digests}.values())
    if sample == 0 or not trials:
        return Check("retrained", "no trial was trained again", done=False)
    if refusal := _refusal(result, again):
        return Check("retrained", refusal, done=False)
    most = sample if isinstance(sample, int) else len(trials)
    chosen = random.Random(seed).sample(trials, min(len(trials), most))
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
    other = [name[retrained.trial.id] for retrained in results if retrained.digest != digests[retrained.trial.id]]
    said = "Trained again, {} gives other results than those stored."
    findings = [_wrong("retrained_differs", said.format(trial), trial) for trial in other]
    if other and plan.own_code:
        words = "Bits of user code may differ from call to call: on a GPU, with threads, with time."
        findings.append(_wrong("own_code_may_differ", words))
    of = f"{len(results):,} of {len(trials):,} trials"
    return Check("retrained", f"{of} trained again, the same bits", tuple(findings))


def _refusal(result: Result, again: Callable[[Result], Again] | None) -> str | None:
    """Why trials cannot be trained again here; None if they can."""
    plan = result.measured.plan
    if plan.study.watched:
        return "this run is a training that was watched: there is nothing to call again"
    if plan.own_code and plan.code.kind == "table":
        return "the results were read from a table: there is nothing to run again"
    if plan.own_code and plan.code.kind == "command":
        return "the results are those of a command, which only its user runs; `Run it again` in the report has it"
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
