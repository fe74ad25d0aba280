"""What happened to a run, by its ledger: what was frozen, changed and looked at; and the remarks for its report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from gradlab.analysis.measured import Measured
from gradlab.plans.plan import Plan
from gradlab.report.changes import Change, Frozen, changes_between
from gradlab.runs.store.account import attempts_beside
from gradlab.runs.store.ledger import LEDGER, Entry, Ledger, read_ledger

SHOWN = 5
"""Names that a sentence lists before it says how many more there are."""
UNFROZEN = "Claims not frozen: this run was made before gradlab kept a ledger."


@dataclass(frozen=True)
class History:
    """The ledger of a run, read: `remarks` are the sentences for its report."""

    entries: tuple[Entry, ...] = ()
    problems: tuple[str, ...] = ()
    """What is wrong with the ledger itself."""
    beside: tuple[str, ...] = ()
    """Folders of earlier attempts that lie beside the run."""
    changes: tuple[Change, ...] = ()
    looks: int = 0
    """How often verdicts were computed on results or claims that differ from those of the look before."""
    happened: tuple[str, ...] = ()
    """What became of the results in the folder, in sentences."""
    rerun: tuple[str, ...] = field(default=())
    """Trials that were run twice and gave different results."""
    missing: bool = False
    """Whether the ledger that the run must have is not there."""

    @property
    def frozen(self) -> bool:
        """Whether claims, seeds and settings were recorded before the first result."""
        return any(entry.kind == "plan" for entry in self.entries) and not (self.unknown or self.adopted)

    @cached_property
    def unknown(self) -> Entry | None:
        """The entry that began a ledger in a folder that already held results."""
        return next((entry for entry in self.entries if entry.kind == "begun" and "unknown" in entry.data), None)

    @cached_property
    def adopted(self) -> bool:
        """Whether results were computed first and put into a folder afterwards."""
        return any(entry.kind == "trials" and entry.data.get("found") == "adopted" for entry in self.entries)

    @property
    def attempt(self) -> int:
        """Which attempt this run is, counting runs that were moved aside from its folder."""
        numbers = [entry.data.get("attempt", 1) for entry in self.entries if entry.kind == "begun"]
        return max([1 + len(self.beside), *(number for number in numbers if isinstance(number, int))])

    @property
    def since(self) -> str | None:
        """When the plan was frozen first."""
        return next((entry.at for entry in self.entries if entry.kind == "plan"), None)

    @cached_property
    def remarks(self) -> tuple[str, ...]:
        """What a reader of the report has to know; nothing if the run went as planned."""
        return (*self._about_freezing(), *self._about_attempts(), *_told(self.changes), *self._about_results())

    def _about_freezing(self) -> Iterable[str]:
        if self.missing:
            yield "The ledger of this run is missing: whether claims or seeds were changed is not known."
        elif not self.entries and not self.problems:
            yield UNFROZEN
        if self.unknown is not None:
            why = "the ledger was removed" if self.unknown.data["unknown"] == "lost" else "this run had a ledger"
            when = "after" if self.unknown.data["unknown"] == "lost" else "before"
            yield (
                f"Claims not frozen: results were there {when} {why}. It begins at {self.unknown.at}; what was changed "
                "or looked at earlier is not known."
            )
        if self.adopted:
            yield "Claims not frozen: results were computed in memory first and saved with their claims afterwards."

    def _about_attempts(self) -> Iterable[str]:
        before = self.attempt - 1
        if not before:
            return
        lie = f"{'lies' if len(self.beside) == 1 else 'lie'} in {_listed(self.beside)}"
        gone = before - len(self.beside)
        if before == 1:
            yield f"An earlier attempt {'was moved aside and is no longer there' if gone else lie}."
            return
        places = [f"{len(self.beside):,} {lie}"] if self.beside else []
        places += [f"{gone:,} {'is' if gone == 1 else 'are'} no longer there"] if gone else []
        yield f"{before:,} earlier attempts were moved aside, only the last is reported here: {'; '.join(places)}."

    def _about_results(self) -> Iterable[str]:
        yield from self.happened
        if self.rerun:
            yield f"{_trials(len(self.rerun))} run twice gave different results: {_listed(self.rerun)}."

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "frozen": self.frozen,
            "since": self.since,
            "attempt": self.attempt,
            "beside": list(self.beside),
            "looks": self.looks,
            "changes": [change.to_json() for change in self.changes],
            "problems": list(self.problems),
            "entries": len(self.entries),
            "sha256": self.entries[-1].sha256 if self.entries else None,
            "remarks": list(self.remarks),
        }


def read_history(folder: Path, *, required: bool) -> History:
    """The history of a run; `required`: whether it must have a ledger (runs of older formats have none)."""
    ledger = read_ledger(folder)
    beside = tuple(path.name for path in attempts_beside(folder.absolute()))
    if ledger is None:
        return History(beside=beside, missing=required)
    return history_of(ledger, beside, folder / LEDGER)


def history_of(ledger: Ledger, beside: Sequence[str] = (), path: Path = Path(LEDGER)) -> History:
    """What a ledger tells."""
    walk = _Walk()
    problems = list(ledger.problems)
    for entry in ledger.entries:
        try:
            walk.take(entry)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError):
            problems.append(f"{path}: entry {entry.number} does not have the shape of a {entry.kind!r} entry")
    if ledger.cut:
        problems.append(f"{path}: the last {ledger.cut:,} of its entries were removed")
    if ledger.torn:
        problems.append(f"{path}: its last line is torn; the next run in this folder repairs it")
    return History(
        ledger.entries,
        tuple(problems),
        tuple(beside),
        tuple(walk.changes),
        len(walk.looks),
        tuple(walk.happened),
        tuple(walk.named(walk.rerun)),
    )


def unfinished_remarks(measured: Measured) -> list[str]:
    """Which planned trials have no result, and which failed."""
    done = {trial.id for trial in measured.trials}
    left = [trial.name for trial in measured.plan.trials if trial.id not in done]
    failed = [trial.name for trial in measured.trials if measured.status(trial) == "failed"]
    planned = len(measured.plan.trials)
    found = [(left, "without a result"), (failed, "failed")]
    told = [f"{len(names):,} of {planned:,} planned trials {how}: {_listed(names)}." for names, how in found if names]
    return [*_about_tuning(measured), *told]


def _about_tuning(measured: Measured) -> Iterable[str]:
    """Which tuning trials have no result, so that no arm has been judged."""
    plan = measured.plan
    if not isinstance(plan, Plan) or plan.tuning is None or not plan.pending:
        return
    tuning = Measured(plan.tuning.plan, measured.records)
    done = {trial.id for trial in tuning.trials if tuning.status(trial) != "failed"}
    left = [trial.name for trial in tuning.plan.trials if trial.id not in done]
    yield (
        f"The tuning is not finished, and no arm has been judged: {len(left):,} of {len(tuning.plan.trials):,} tuning "
        f"trials without a result ({_listed(left)})."
    )


class _Walk:
    """Reads a ledger from its first entry to its last."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.looks: list[Mapping[str, Any]] = []
        self.happened: list[str] = []
        self.rerun: dict[str, None] = {}
        self._plans: list[Frozen] = []
        self._digests: dict[str, tuple[str, str]] = {}
        """Trial -> digest and status of its latest result."""

    def take(self, entry: Entry) -> None:
        """One entry after the other; kinds that later versions may add are passed over."""
        step = getattr(self, f"_{entry.kind}", None)
        if entry.kind in ("plan", "tuned", "trials", "look", "missing", "altered", "set_aside", "cut", "repaired"):
            assert step is not None
            step(entry)

    def _plan(self, entry: Entry) -> None:
        plan = Frozen.of(entry.data)
        if self._plans:
            finished = {trial for trial, (_, status) in self._digests.items() if status != "failed"}
            self.changes += changes_between(self._plans[-1], plan, entry.at, finished, len(self.looks))
        self._plans.append(plan)

    def _tuned(self, entry: Entry) -> None:
        """The values at which the arms of the latest plan are judged."""
        judged = {str(group["name"]): str(group["id"]) for group in entry.data["groups"]}
        if self._plans:
            self._plans[-1] = replace(self._plans[-1], judged=judged)

    def _trials(self, entry: Entry) -> None:
        for trial, digest, *how in entry.data["trials"]:
            status = how[0] if how else "done"
            before = self._digests.get(trial)
            if before is not None and "failed" not in (status, before[1]) and before[0] != digest:
                self.rerun[str(trial)] = None
            if before is None or status != "failed":
                self._digests[str(trial)] = (digest, status)

    def _look(self, entry: Entry) -> None:
        self.looks.append(entry.data)

    def _missing(self, entry: Entry) -> None:
        names = self.named(str(trial) for trial, _, *_ in entry.data["trials"])
        self.happened.append(
            f"{_trials(len(names))} {'was' if len(names) == 1 else 'were'} removed from the folder and run again "
            f"({entry.at}): {_listed(names)}."
        )

    def _altered(self, entry: Entry) -> None:
        was, now = ({str(row[0]): row[1] for row in rows} for rows in (entry.data["was"], entry.data["trials"]))
        names = self.named(trial for trial in {**was, **now} if was.get(trial) != now.get(trial))
        what = f"results differ for {_listed(names)}" if names else "the same trials, other bytes"
        self.happened.append(f"Chunk {entry.data['chunk']} was altered after it was committed: {what}.")
        self._trials(entry)

    def _set_aside(self, entry: Entry) -> None:
        count = len(entry.data["trials"])
        self.happened.append(
            f"Chunk {entry.data['chunk']} was damaged and is kept in {entry.data['kept']}; its {_trials(count)} "
            f"{'was' if count == 1 else 'were'} run again ({entry.at})."
        )

    def _cut(self, entry: Entry) -> None:
        count = int(entry.data["entries"])
        self.happened.append(
            f"{count:,} {'entry' if count == 1 else 'entries'} at the end of the ledger had been removed ({entry.at})."
        )

    def _repaired(self, entry: Entry) -> None:
        self.happened.append(
            f"The last line of the ledger was torn, by a process that died, and repaired ({entry.at})."
        )

    def named(self, trials: Iterable[str]) -> list[str]:
        """Trial ids as people know them, by any plan that the ledger has seen."""
        wanted = dict.fromkeys(trials)
        if not wanted:
            return []
        known = {
            identity: f"{name} · seed {seed}"
            for plan in self._plans
            for identity, name, seed in plan.ids
            if identity in wanted
        }
        return [known.get(trial, trial) for trial in wanted]


def _told(changes: Sequence[Change]) -> Iterable[str]:
    """A sentence for each change that was made after results were known; added seeds in one sentence for all."""
    known = [change for change in changes if change.finished]
    added = [change for change in known if change.what == "seeds added"]
    yield from (change.sentence for change in known if change.what != "seeds added")
    if len(added) == 1:
        yield added[0].sentence
    elif added:
        steps = [f"{len(change.detail['was']):,}" for change in added] + [f"{len(added[-1].detail['is']):,}"]
        yield (
            f"Seeds were added {len(added)} times after results were known ({' → '.join(steps)}); verdicts had been "
            f"looked at {times(added[-1].looks)} before the last."
        )


def times(count: int) -> str:
    """`once`, `2 times`."""
    return "once" if count == 1 else f"{count:,} times"


def _trials(count: int) -> str:
    return f"{count:,} trial{'' if count == 1 else 's'}"


def _listed(names: Sequence[str]) -> str:
    shown = list(names[:SHOWN])
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more > 0 else "")
