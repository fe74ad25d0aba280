"""What a run's folder writes to its ledger, and when.

begun      the folder was taken: which attempt it is, and where an earlier run was moved to
plan       claims, seeds, groups and settings, before the first trial and whenever they change
trials     a committed chunk: hash of its manifest; id, digest and status of each trial
tuned      each arm's values were chosen from the tuning trials: which, and the ids under which they are judged
look       verdicts were computed: on how many trials, and which
set_aside, missing, altered, cut, repaired
           what was found when the folder was taken again
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gradlab.errors import StoreError
from gradlab.plans.freezing import frozen
from gradlab.plans.outline import Outline
from gradlab.plans.plan import Plan
from gradlab.runs.store.chunks import Chunk
from gradlab.runs.store.ledger import HEAD, Ledger, Note, Writer, read_ledger
from gradlab.spec.canonical import plain_json


@dataclass
class Account:
    """The ledger of a folder that is written to."""

    path: Path
    earlier: Mapping[str, Any] | None = None
    """The run that was moved aside to make room for this one."""
    aside: list[Mapping[str, Any]] = field(default_factory=list)
    """Damaged chunks that were set aside when the folder was taken."""

    def __post_init__(self) -> None:
        self._writer = Writer(self.path)

    def begin(self, plan: Outline, chunks: Sequence[Chunk], *, required: bool) -> list[str]:
        """Freeze the plan before its first trial, and record what is not as the ledger left it; gives remarks.

        `required`: whether the folder must have a ledger already.
        """
        ledger = read_ledger(self.path)
        told: list[str] = []
        if ledger is None:
            notes = self._first(chunks, required)
            ledger = Ledger(())
        else:
            notes, told = self._differences(ledger, chunks)
        now, plans = frozen(plan), ledger.of("plan")
        if not plans or plans[-1].data.get("id") != now["id"]:
            notes.append(("plan", now))
        self._writer.append(notes)
        return told

    def choose(self, plan: Plan, results: str) -> None:
        """Record the choice that a tuning came to, unless it is the one that was recorded last."""
        data, ledger = choice_data(plan, results), read_ledger(self.path)
        before = ledger.of("tuned") if ledger is not None else []
        if not before or dict(before[-1].data) != data:
            self._writer.append([("tuned", data)])

    def _first(self, chunks: Sequence[Chunk], required: bool) -> list[Note]:
        beside = len(attempts_beside(self.path))
        begun: dict[str, Any] = {"attempt": 1 + beside}
        if self.earlier is not None:
            begun = {"attempt": 1 + max(beside, self.earlier.get("attempt", 0)), "earlier": dict(self.earlier)}
        if chunks:
            begun["unknown"] = "lost" if required or (self.path / HEAD).exists() else "older"
        return [("begun", begun), *(recorded(chunk, chunk.table("trials"), found="before") for chunk in chunks)]

    def _differences(self, ledger: Ledger, chunks: Sequence[Chunk]) -> tuple[list[Note], list[str]]:
        """Entries for all that happened to the folder since the last one, and what to tell the user."""
        notes: list[Note] = []
        told: list[str] = []
        if ledger.cut:
            notes.append(("cut", {"entries": ledger.cut}))
            told.append(f"the ledger of {self.path} lacks its last {_count(ledger.cut, 'entry', 'entries')}")
        there = {chunk.path.name: chunk for chunk in chunks}
        known = committed_chunks(ledger)
        for aside in self.aside:
            was = known.pop(str(aside["chunk"]), {})
            notes.append(("set_aside", {**aside, "trials": list(was.get("trials", ()))}))
        for name, data in known.items():
            if name not in there:
                notes.append(("missing", {"chunk": name, "trials": data["trials"]}))
                told.append(
                    f"chunk {name} of {self.path}, with {_count(len(data['trials']), 'finished trial')}, was removed; "
                    "its trials are run again"
                )
            elif there[name].sha256 != data["manifest"]:
                _, now = recorded(there[name], there[name].table("trials"), found="altered")
                notes.append(("altered", {**now, "was": data["trials"]}))
                told.append(f"chunk {name} of {self.path} is not the one that was committed")
        for name, chunk in there.items():
            if name not in known:
                notes.append(recorded(chunk, chunk.table("trials"), found="later"))
        return notes, told

    def commit(self, chunk: Chunk, trials: Any, *, adopted: bool = False) -> None:
        """A chunk was committed; `adopted`: with results that were there before the plan was frozen."""
        self._writer.append([recorded(chunk, trials, found="adopted" if adopted else None)])


def choice_data(plan: Plan, results: str) -> dict[str, Any]:
    """The entry of a choice: the values of each arm, and the groups that are run at the judging seeds."""
    tuning = plan.tuning
    assert tuning is not None
    assert tuning.chosen is not None
    untuned = tuning.untuned.groups if tuning.untuned is not None else ()
    data = {
        "by": tuning.tune.by,
        "results": results,
        "chosen": {arm: dict(candidate.values) for arm, candidate in tuning.chosen.items()},
        "seeds": list(plan.study.trial_seeds),
        "groups": [{"name": planned.group.name, "id": planned.id} for planned in (*plan.groups, *untuned)],
    }
    plain: dict[str, Any] = plain_json(data)
    return plain


def recorded(chunk: Chunk, trials: Any, found: str | None = None) -> Note:
    """The entry of a chunk with this table of trials. `found` says how it came here, if not by being committed."""
    columns = (trials[name].to_pylist() for name in ("trial", "digest", "status"))
    rows = [[trial, digest, *([how] if how != "done" else [])] for trial, digest, how in zip(*columns, strict=True)]
    data = {"chunk": chunk.path.name, "manifest": chunk.sha256, "trials": rows}
    return "trials", {**data, **({"found": found} if found else {})}


def committed_chunks(ledger: Ledger) -> dict[str, dict[str, Any]]:
    """Chunk -> its latest entry, without those that are known to be gone."""
    found: dict[str, dict[str, Any]] = {}
    for entry in ledger.of("trials", "altered", "set_aside", "missing"):
        name, trials = entry.data.get("chunk"), entry.data.get("trials")
        if not isinstance(name, str) or not isinstance(trials, list):
            continue
        if entry.kind in ("set_aside", "missing"):
            found.pop(name, None)
        elif isinstance(entry.data.get("manifest"), str):
            found[name] = dict(entry.data)
    return found


def record_look(folder: Path, look: Mapping[str, Any]) -> str | None:
    """Append a look to the ledger, unless it saw what the last one saw; gives the reason if it cannot be written.

    Runs without a ledger stay without one: it is begun when the run is continued.
    """
    try:
        ledger = read_ledger(folder)
        if ledger is None:
            return None
        looks = ledger.of("look")
        plans = ledger.of("plan")
        if looks and dict(looks[-1].data) == dict(look) and looks[-1].number > (plans[-1].number if plans else 0):
            return None
        Writer(folder).append([("look", look)])
    except StoreError as error:
        return str(error)
    return None


def look_data(by_group: Mapping[str, Sequence[str]], results: str, verdicts: Iterable[str]) -> dict[str, Any]:
    """What a look saw: finished trials of every group (one number if all have as many), failures, verdicts."""
    counts = {name: sum(status != "failed" for status in statuses) for name, statuses in by_group.items()}
    failed = Counter(status for statuses in by_group.values() for status in statuses)["failed"]
    same = set(counts.values())
    return {
        "results": results,
        "finished": same.pop() if len(same) == 1 else counts,
        "failed": failed,
        "verdicts": list(verdicts),
    }


def attempts_beside(path: Path) -> list[Path]:
    """Runs that were moved aside from this folder, `NAME~1`, `NAME~2`, …, as far as they still lie beside it."""
    pattern = re.compile(re.escape(path.name) + r"~(\d+)")
    try:
        found = {
            int(match[1]): each for each in path.absolute().parent.iterdir() if (match := pattern.fullmatch(each.name))
        }
    except OSError:
        return []
    return [found[number] for number in sorted(found)]


def attempt_of(folder: Path) -> int:
    """Which attempt a run is, by its own ledger; 0 where that is not known."""
    try:
        ledger = read_ledger(folder)
    except StoreError:
        return 0
    numbers = [entry.data.get("attempt") for entry in (ledger.of("begun") if ledger else ())]
    return max((number for number in numbers if isinstance(number, int)), default=0)


def _count(number: int, word: str, words: str | None = None) -> str:
    return f"{number:,} {word if number == 1 else words or word + 's'}"
