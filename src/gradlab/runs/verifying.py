"""Checks of what a run's folder stores: every file against its checksum, every chunk and trial against the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from gradlab.errors import StoreError
from gradlab.plans.saving import CODE, part_files, trial_ids
from gradlab.runs.store.chunks import Chunk
from gradlab.runs.store.files import read_regular, read_sealed
from gradlab.runs.store.folder import chunk_paths
from gradlab.runs.store.ledger import Ledger, committed_chunks, recorded_files
from gradlab.runs.store.rehash import rehash
from gradlab.runs.store.report_folder import AUDIT, ENVIRONMENT, LAYER_NAMES, MICROWORLD, PLAN
from gradlab.trials.trial import trial_id

SHOWN = 5
"""Trials that a finding names before it says how many more there are."""


@dataclass(frozen=True)
class Check:
    """One thing that was checked; `findings` are sentences, one for each thing that does not check out."""

    name: str
    summary: str
    findings: tuple[str, ...] = ()
    done: bool = True
    """False where it could not be checked; `summary` says why."""

    @property
    def result(self) -> Literal["ok", "failed", "not checked"]:
        """How it ended."""
        return "failed" if self.findings else "ok" if self.done else "not checked"

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return {"check": self.name, "result": self.result, "summary": self.summary, "findings": list(self.findings)}


def check_files(folder: Path, tree: Mapping[str, Any]) -> Check:
    """Every JSON file that is read back holds its own checksum, and part files are those of the plan."""
    findings, count = [], 0
    for name in (PLAN, ENVIRONMENT, AUDIT, MICROWORLD, LAYER_NAMES):
        try:
            count += read_sealed(folder / name) is not None
        except StoreError as error:
            findings.append(f"{error}.")
    for part in part_files(tree, folder):
        try:
            same = sha256(read_regular(Path(part.path))).hexdigest() == part.sha256
        except OSError as error:
            findings.append(f"{part.path} cannot be read: {error.strerror or error}.")
            continue
        count += 1
        if not same:
            findings.append(f"{part.path} is not the part file that the run was made with.")
    return Check("files", f"{_count(count, 'file')} hold what was written", tuple(findings))


def check_written(folder: Path, ledger: Ledger | None) -> Check:
    """The files for readers (report, figures, tables, study) are those that were written; removed ones are no edit."""
    files = {} if ledger is None else recorded_files(ledger)
    if not files:
        return Check("report", "no look has recorded the hashes of its report", done=False)
    findings, there = [], 0
    for name, written in sorted(files.items()):
        try:
            same = sha256(read_regular(folder / name)).hexdigest() == written
        except FileNotFoundError:
            continue
        except OSError as error:
            findings.append(f"{folder / name} cannot be read: {error.strerror or error}.")
            continue
        there += 1
        if not same:
            findings.append(
                f"{folder / name} is not what was written: it was edited since, or its writing was interrupted; "
                f"`gradlab report {folder}` writes the report again."
            )
    gone = f"; {len(files) - there:,} removed" if there < len(files) else ""
    return Check("report", f"{_count(there, 'file')} of report and study as they were written{gone}", tuple(findings))


@dataclass
class Stored:
    """The results of a folder beside its plan and its ledger."""

    folder: Path
    tree: Mapping[str, Any]
    """The saved plan."""
    ledger: Ledger | None
    whole: bool
    """Whether the ledger saw the run from its beginning, so that whatever it does not know is foreign."""
    chunks: list[Chunk] = field(default_factory=list)
    """Those whose bytes are what was written."""
    damaged: dict[str, str] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    """Trial -> digest of its stored result, failures aside."""

    def __post_init__(self) -> None:
        for path in chunk_paths(self.folder):
            try:
                chunk = Chunk.open(path)
                chunk.verify()
            except StoreError as error:
                self.damaged[path.name] = str(error)
                continue
            self.chunks.append(chunk)
            for row in chunk.table("trials").select(["trial", "digest", "status"]).to_pylist():
                if row["status"] != "failed":
                    self.digests[row["trial"]] = row["digest"]
        self._names = self._known_trials()

    def _known_trials(self) -> dict[str, tuple[set[str], int]]:
        """Trial id -> the names its group had, and its seed: of every plan that the run ever had."""
        found: dict[str, tuple[set[str], int]] = {}
        for identity, (name, seed) in trial_ids(self.tree).items():
            found.setdefault(identity, (set(), seed))[0].add(name)
        plans = self.ledger.of("plan", "tuned") if self.ledger is not None else []
        whole = [entry.data for entry in plans]
        tunings = [data["tuning"] for data in whole if data.get("tuning")]
        for plan in (*whole, *tunings):
            for seed in plan["seeds"]:
                for group in plan["groups"]:
                    found.setdefault(trial_id(group["id"], seed), (set(), seed))[0].add(group["name"])
        return found

    def name(self, trial: str) -> str:
        """A trial as people know it."""
        if trial not in self._names:
            return f"trial {trial}"
        names, seed = self._names[trial]
        return f"{min(names)} · seed {seed}"

    def listed(self, trials: Iterable[str]) -> str:
        """Some trials by name."""
        names = [self.name(trial) for trial in dict.fromkeys(trials)]
        more = len(names) - SHOWN
        return ", ".join(names[:SHOWN]) + (f" and {more:,} more" if more > 0 else "")

    # ------------------------------------------------------------------ checks

    def check_chunks(self) -> Check:
        """Every chunk is whole, and the one that was recorded; none that was recorded is missing."""
        findings = [f"{error}." for error in self.damaged.values()]
        summary = f"{_count(len(self.chunks), 'chunk')}, with every byte as it was written"
        if self.ledger is None:
            return Check("chunks", f"{summary}; without a ledger, removed ones cannot be seen", tuple(findings))
        known = committed_chunks(self.ledger)
        for chunk in self.chunks:
            entry = known.get(chunk.path.name)
            if entry is not None and entry["manifest"] != chunk.sha256:
                findings.append(self._rewritten(chunk, entry))
        there = {chunk.path.name for chunk in self.chunks} | self.damaged.keys()
        for name, entry in known.items():
            if name not in there:
                rows = [str(row[0]) for row in entry["trials"]]
                findings.append(
                    f"Chunk {name} was committed and is gone, with {_count(len(rows), 'result')}: {self.listed(rows)}."
                )
        extra = [chunk for chunk in self.chunks if chunk.path.name not in known]
        if any(chunk.path.name < last for chunk in extra for last in known) or len(extra) > 1:
            findings += [
                f"Chunk {chunk.path.name} is not in the ledger: it was put there by hand, or its entry was removed."
                for chunk in extra
            ]
        elif extra:
            summary += f"; {extra[0].path.name} is not recorded yet, as a killed process leaves it"
        return Check("chunks", summary, tuple(findings))

    def _rewritten(self, chunk: Chunk, entry: Mapping[str, Any]) -> str:
        was = {str(row[0]): row[1] for row in entry["trials"]}
        table = chunk.table("trials")
        now = dict(zip(table["trial"].to_pylist(), table["digest"].to_pylist(), strict=True))
        gone, new = [trial for trial in was if trial not in now], [trial for trial in now if trial not in was]
        other = [trial for trial in now if trial in was and now[trial] != was[trial]]
        words = [
            f"{what} {self.listed(trials)}"
            for what, trials in (("without", gone), ("with another digest of", other), ("with a foreign", new))
            if trials
        ]
        return (
            f"Chunk {chunk.path.name} is not the one that was committed: it was written again "
            f"{'; '.join(words) or 'with other numbers for the same trials'}."
        )

    def check_trials(self) -> Check:
        """Every row has the id that its plan derives, and numbers that give its digest."""
        findings: list[str] = []
        own_code = self.tree.get("kind") == CODE
        foreign, wrong, unsure, count = [], [], 0, 0
        for chunk in self.chunks:
            for row in chunk.table("trials").select(["trial", "group", "seed"]).to_pylist():
                count += 1
                known = self._names.get(row["trial"])
                if known is None:
                    foreign.append(row["trial"])
                elif row["seed"] != known[1] or (self.whole and row["group"] not in known[0]):
                    findings.append(
                        f"{chunk.path}: a row that says {row['group']} · seed {row['seed']} has the id of "
                        f"{self.name(row['trial'])}."
                    )
            for trial, fits in rehash(chunk, own_code=own_code).items():
                unsure += fits is None
                wrong += [trial] if fits is False else []
        if wrong:
            findings.append(f"The stored numbers are not those of the digest: {self.listed(wrong)}. They were edited.")
        if foreign and self.whole:
            findings.append(f"Results of trials that no plan of this run has: {', '.join(foreign[:SHOWN])}.")
        summary = f"{_count(count, 'result')} under the id of settings and seed"
        summary += f"; {count - unsure:,} digests computed again" if unsure < count else ""
        return Check("trials", summary + _unsure(unsure), tuple(findings))

    def check_accounted(self) -> Check:
        """Every result that was ever recorded is still there, with the same digest."""
        if self.ledger is None:
            return Check("complete", "the run has no ledger, so nobody knows which results it had", done=False)
        recorded: dict[str, str] = {}
        for trial, digest, status in recorded_results(self.ledger):
            if status != "failed":
                recorded.setdefault(trial, digest)
        hidden = {t for c in self.damaged for t in _rows(committed_chunks(self.ledger).get(c, {}))}
        gone = [trial for trial in recorded if trial not in self.digests and trial not in hidden]
        other = [t for t, digest in recorded.items() if t in self.digests and self.digests[t] != digest]
        findings = []
        if gone:
            findings.append(f"Results that were committed are gone: {self.listed(gone)}.")
        if other:
            findings.append(f"Results are not those that were committed first: {self.listed(other)}.")
        return Check("complete", f"every result that was recorded is there ({len(recorded):,})", tuple(findings))


def recorded_results(ledger: Ledger) -> Iterator[tuple[str, str, str]]:
    """Trial, digest and status of every result that the ledger saw committed, in order."""
    for entry in ledger.of("trials"):
        for trial, digest, *status in entry.data["trials"]:
            yield trial, digest, status[0] if status else "done"


def _rows(entry: Mapping[str, Any]) -> Sequence[str]:
    return [str(row[0]) for row in entry.get("trials", ())]


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _unsure(count: int) -> str:
    return (
        f"; {count:,} digests cannot be computed from what is stored (of user code, or without weights)"
        if count
        else ""
    )
