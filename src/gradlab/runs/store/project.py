"""The ledger of a project: everything that was explored, frozen, run, abandoned or deleted, over all its run folders.

`gradlab.ledger` lies in the project's folder and is hash-chained as the ledgers of runs are, with the same code; its
head, `gradlab.ledger.json`, stands for everything before. Kinds of entries:

    begun      the ledger was begun; run folders that name an earlier one, if there are any
    explored   a study was tried out: numbers, no verdict
    frozen     claims with the study that they are about, before its results; each gets a number in the project
    run        a frozen study was started: its folder, the drawn root seed, the audit, a declared unfairness
    outcome    results were judged: verdict and e-values of each claim, and which claims are settled over the project
    deleted    the folder of a run is gone

A run's folder says in `project.json` to which project it belongs, so its report can say where its claims stand.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import Field

from gradlab.errors import StoreError
from gradlab.plans.plan import Plan
from gradlab.runs.store.files import open_own, read_json_object, write_bytes
from gradlab.runs.store.ledger import GENESIS, ChainWriter, Entry, Note, read_chain, wait_for
from gradlab.spec.base import content_id, plain_json
from gradlab.spec.paths import flatten
from gradlab.spec.stored import Count, Stored

LEDGER, HEAD, LOCK, NOTE = "gradlab.ledger", "gradlab.ledger.json", ".gradlab.ledger.lock", "project.json"
DEPTH = 3
"""Folders below the project in which runs are looked for when the ledger is new."""
Tree = Mapping[str, Any]


class _Explored(Stored):
    id: str
    topic: str


class _Claim(Stored):
    number: Count
    text: str
    claim: dict[str, Any]


class _Frozen(Stored):
    id: str
    topic: str
    design: str
    claims: list[_Claim]
    study: str | None = None
    """Its YAML: keys of a tree would be sorted, and the order of arms and axes means something."""
    reason: str = ""


class _Run(Stored):
    id: str
    frozen: str
    folder: str
    seed: Count
    audit: str = ""
    declared: str = ""
    trials_before: Count = 0
    drawn: bool = False


class _Judged(Stored):
    number: Count
    outcome: str
    settled: str | None = None


class _Outcome(Stored):
    run: str
    results: str
    claims: list[_Judged] = Field(default_factory=list)


class _Deleted(Stored):
    run: str


KINDS: Mapping[str, type[Stored]] = {
    "explored": _Explored, "frozen": _Frozen, "run": _Run, "outcome": _Outcome, "deleted": _Deleted,
}  # fmt: skip


@dataclass
class FrozenClaim:
    """One claim of the project and what became of it."""

    number: int
    """Counted from 1 over the project, in the order of freezing."""
    text: str
    claim: Tree
    batch: str
    at: str
    runs: list[str] = field(default_factory=list)
    outcome: str | None = None
    """The verdict of its own study, at the latest look; None: it was never judged."""
    settled: str | None = None
    """How it is settled over the project (e-LOND); None: it is not."""

    @property
    def id(self) -> str:
        """`c3`."""
        return f"c{self.number}"


@dataclass
class Batch:
    """Claims that were frozen together, with their study."""

    id: str
    topic: str
    design: str
    study: str | None
    """Its YAML; None: it was frozen by a run."""
    reason: str
    at: str
    claims: list[FrozenClaim]
    explored_before: int
    """Explorations of the same question before."""


@dataclass
class ProjectRun:
    """A run of frozen claims."""

    id: str
    batch: Batch
    folder: str
    seed: int
    """The root seed."""
    at: str
    audit: str
    declared: str
    """Why an audit that failed was accepted, in the caller's words."""
    trials_before: int
    """Results that were in the folder before the claims were frozen."""
    drawn: bool
    """Whether the root seed was drawn by the server; else whoever started the run chose it."""
    outcome: Tree | None = None
    deleted: bool = False


@dataclass
class ProjectState:
    """What the ledger of a project says."""

    claims: list[FrozenClaim] = field(default_factory=list)
    batches: dict[str, Batch] = field(default_factory=dict)
    runs: dict[str, ProjectRun] = field(default_factory=dict)
    explored: list[Tree] = field(default_factory=list)
    entries: tuple[Entry, ...] = ()
    problems: tuple[str, ...] = ()
    lost: int = 0
    """Run folders that name an earlier ledger, which was removed."""

    @property
    def head(self) -> str:
        """The hash of the last entry."""
        return self.entries[-1].sha256 if self.entries else GENESIS

    @property
    def settled(self) -> int:
        """Claims that are settled over the project."""
        return sum(claim.settled is not None for claim in self.claims)

    def earlier(self, batch: Batch) -> list[FrozenClaim]:
        """Claims about the same question that were frozen before."""
        first = min((claim.number for claim in batch.claims), default=0)
        return [c for c in self.claims if c.number < first and same_question(self.batches[c.batch].topic, batch.topic)]


Judge = Callable[[Sequence[FrozenClaim], int], list[dict[str, Any]]]
"""Judges the claims of a run, with so many claims of the project settled before: number, outcome, e-values, settled."""


class Project:
    """A folder with a ledger over all its runs. Any process may read and append."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self._writer = ChainWriter(self.folder / LEDGER, self.folder / HEAD)

    def read(self) -> ProjectState:
        """What the ledger says now; empty if there is none. Only reads."""
        ledger = read_chain(self.folder / LEDGER, self.folder / HEAD, KINDS)
        if ledger is None:
            return ProjectState()
        cut = (f"{self.folder / LEDGER}: {ledger.cut} entries at its end were removed",) if ledger.cut else ()
        state = ProjectState(entries=ledger.entries, problems=(*ledger.problems, *cut))
        for entry in ledger.entries:
            _take(state, entry)
        return state

    @contextmanager
    def changing(self) -> Iterator[tuple[ProjectState, list[Note]]]:
        """The state, and a list whose notes are appended at the end; no other process appends meanwhile."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            handle = open_own(self.folder / LOCK, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise StoreError(f"cannot write to {self.folder}: {error.strerror or error}") from None
        with open(handle, "r+b") as file:
            wait_for(file, self.folder / LOCK, patience=30)
            state = self.read()
            notes: list[Note] = []
            if not state.entries and not state.problems:
                notes.append(("begun", {"orphans": self._orphans()}))
            yield state, notes
            self._writer.append(notes)

    def explore(self, data: Tree) -> str:
        """Record an exploration; gives its id."""
        with self.changing() as (state, notes):
            name = f"e{len(state.explored) + 1}"
            notes.append(("explored", {**plain_json(dict(data)), "id": name}))
        return name

    def freeze(self, plan: Plan, study: str, reason: str) -> Batch:
        """Freeze the claims of a plan; frozen already and never run, they keep their numbers."""
        with self.changing() as (state, notes):
            notes += self._freeze(state, plan, study, reason)[1]
        return self._batch(self.read(), plan)

    def _freeze(self, state: ProjectState, plan: Plan, study: str | None, reason: str) -> tuple[str, list[Note]]:
        """The id of the batch, and what is to be appended if it is a new one."""
        design, used = design_of(plan), {run.batch.id for run in state.runs.values()}
        for batch in state.batches.values():
            if batch.design == design and batch.id not in used:
                return batch.id, []
        name, first = f"f{len(state.batches) + 1}", len(state.claims) + 1
        claims = [
            {
                "number": number,
                "text": claim.text,
                "claim": plain_json(claim.model_dump(mode="json", exclude_defaults=True)),
            }
            for number, claim in enumerate(plan.study.claims, first)
        ]
        about = {"id": name, "topic": topic_of(plan), "question": plan.study.question, "design": design}
        kept = {} if study is None else {"study": study}
        return name, [("frozen", {**about, "claims": claims, "reason": reason, **kept})]

    def _batch(self, state: ProjectState, plan: Plan) -> Batch:
        design = design_of(plan)
        return [batch for batch in state.batches.values() if batch.design == design][-1]

    def start(self, plan: Plan, folder: Path, audit: str, trials_before: int) -> str:
        """Record that a plan is run in a folder, unless it is being continued there; gives the id of the run.

        Claims that were not frozen before are frozen now.
        """
        place, seed = self.place(folder), plan.study.seed
        with self.changing() as (state, notes):
            for run in reversed(state.runs.values()):
                if (run.folder, run.seed, run.batch.design) == (place, seed, design_of(plan)):
                    name = run.id
                    break
            else:
                batch, frozen = self._freeze(state, plan, None, "frozen by the run")
                name, notes[len(notes) :] = f"r{len(state.runs) + 1}", frozen
                data = {"id": name, "frozen": batch, "folder": place, "seed": seed, "audit": audit}
                notes.append(("run", {**data, "trials_before": trials_before}))
        return name

    def begin(self, batch: str, study: str, seed: int, audit: str, declared: str) -> ProjectRun:
        """Record the run of frozen claims under a root seed that was drawn for it; the same run if it began before."""
        with self.changing() as (state, notes):
            if all(run.batch.id != batch for run in state.runs.values()):
                name = f"r{len(state.runs) + 1}"
                data = {"id": name, "frozen": batch, "folder": f"runs/{study}-{name}", "seed": seed, "drawn": True}
                notes.append(("run", {**data, "audit": audit, "declared": declared}))
        return next(run for run in self.read().runs.values() if run.batch.id == batch)

    def name_in(self, folder: Path, run: str) -> None:
        """Write into a run's folder to which project it belongs."""
        above = os.path.relpath(self.folder, folder.resolve()).replace(os.sep, "/")
        write_bytes(folder / NOTE, (json.dumps({"project": above, "run": run}) + "\n").encode())

    def conclude(self, run: str, results: str, judge: Judge) -> None:
        """Record the verdicts of a run, unless these results were recorded before.

        A claim that is settled stays settled as it was.
        """
        with self.changing() as (state, notes):
            entry = state.runs.get(run)  # None: the ledger was removed meanwhile, which every report says
            if entry is not None and (entry.outcome is None or entry.outcome["results"] != results):
                judged = judge(entry.batch.claims, state.settled)
                notes.append(("outcome", {"run": run, "results": results, "claims": plain_json(judged)}))

    def note_deleted(self) -> None:
        """Record runs whose folders are gone."""
        gone = [run for run in self.read().runs.values() if not run.deleted and not self.exists(run)]
        if gone:
            with self.changing() as (state, notes):
                notes += [
                    ("deleted", {"run": run.id})
                    for run in gone
                    if not state.runs[run.id].deleted and not self.exists(run)
                ]

    def exists(self, run: ProjectRun) -> bool:
        """Whether the folder of a run is there, or was never filled."""
        return (self.folder / run.folder).is_dir()

    def place(self, folder: Path) -> str:
        """A folder as the ledger names it: relative to the project where it lies inside."""
        return os.path.relpath(folder.resolve(), self.folder).replace(os.sep, "/")

    def _orphans(self) -> list[str]:
        """Run folders that name a project which lies here, although there is no ledger."""
        found = []
        for depth in range(1, DEPTH + 1):
            for note in sorted(self.folder.glob("/".join(["*"] * depth) + f"/{NOTE}"))[:1000]:
                project = project_of(note.parent)
                if project is not None and project[0].folder == self.folder:
                    found.append(self.place(note.parent))
        return found


def project_of(folder: Path) -> tuple[Project, str] | None:
    """The project to which a run's folder says it belongs, and the run's id there; None if it names none above it."""
    note = read_json_object(folder / NOTE)
    above, run = note.get("project"), note.get("run")
    if not isinstance(run, str) or not isinstance(above, str) or not re.fullmatch(r"\.\.?(/\.\.)*", above):
        return None
    return Project(folder / above), run


@dataclass(frozen=True)
class Standing:
    """Where the claims of one run stand in their project."""

    state: ProjectState
    run: ProjectRun | None
    """None: the ledger does not know the run."""

    @cached_property
    def batch(self) -> Batch | None:
        """The claims of the run."""
        return None if self.run is None else self.run.batch


def standing_of(folder: Path) -> Standing | None:
    """Where the claims of the run in this folder stand; None if it belongs to no project."""
    found = project_of(folder)
    if found is None:
        return None
    state = found[0].read()
    return Standing(state, state.runs.get(found[1]))


def topic_of(plan: Plan) -> str:
    """What a study is about, whatever it is called: the task and what varies. Its text can be rewritten at will."""
    study = plan.study
    if study.code is not None:
        return f"{study.code.kind}: {', '.join(sorted(study.arms or {}))}"
    configs = [group.config for group in plan.groups if group.network is not None]
    tasks = sorted({config.data.task for config in configs})
    settings = [dict(flatten(config.model_dump(mode="json"))) for config in configs]
    paths = dict.fromkeys(path for own in settings for path in own)
    varied = sorted(path for path in paths if len({str(own.get(path)) for own in settings}) > 1)
    return f"{', '.join(tasks)}: {', '.join(varied) or 'nothing varies'}"


def same_question(first: str, second: str) -> bool:
    """Whether two topics share a task and something that varies: an arm or a setting more makes no other question."""
    (a, _, b), (c, _, d) = first.partition(": "), second.partition(": ")
    return all(set(one.split(", ")) & set(other.split(", ")) for one, other in ((a, c), (b, d)))


def design_of(plan: Plan) -> str:
    """A hash of claims and arms, without seeds."""
    planned = plan.groups if plan.tuning is None else plan.tuning.base.groups
    groups = [
        (p.group.name, p.content or p.id if p.group.network is None else p.group.config.model_dump(mode="json"))
        for p in planned
    ]
    claims = [claim.model_dump(mode="json", exclude_defaults=True) for claim in plan.study.claims]
    return content_id(plain_json([topic_of(plan), claims, groups]))


def _take(state: ProjectState, entry: Entry) -> None:
    data = entry.data
    if entry.kind == "begun":
        state.lost += len(data.get("orphans", ()))
    elif entry.kind == "explored":
        state.explored.append({**data, "at": entry.at})
    elif entry.kind == "frozen":
        claims = [FrozenClaim(c["number"], c["text"], c["claim"], data["id"], entry.at) for c in data["claims"]]
        before = sum(same_question(explored["topic"], data["topic"]) for explored in state.explored)
        state.batches[data["id"]] = Batch(
            data["id"],
            data["topic"],
            data["design"],
            data.get("study"),
            data.get("reason", ""),
            entry.at,
            claims,
            before,
        )
        state.claims += claims
    elif entry.kind == "run" and data["frozen"] in state.batches:
        batch = state.batches[data["frozen"]]
        state.runs[data["id"]] = ProjectRun(
            data["id"], batch, data["folder"], data["seed"], entry.at, data.get("audit", ""), data.get("declared", ""),
            data.get("trials_before", 0), data.get("drawn", False),
        )  # fmt: skip
        for claim in batch.claims:
            claim.runs.append(data["id"])
    elif entry.kind == "outcome" and data["run"] in state.runs:
        state.runs[data["run"]].outcome = data
        numbers = {claim.number: claim for claim in state.runs[data["run"]].batch.claims}
        for judged in data["claims"]:
            if judged["number"] in numbers:
                claim = numbers[judged["number"]]
                claim.outcome, claim.settled = judged["outcome"], claim.settled or judged.get("settled")
    elif entry.kind == "deleted" and data["run"] in state.runs:
        state.runs[data["run"]].deleted = True
