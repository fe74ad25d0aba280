"""What happened to a run, by its ledger: what was frozen, changed and looked at. `tell/history.py` says it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from gradlab.runs.store.ledger import LEDGER, Entry, Ledger, attempts_beside, read_ledger
from gradlab.trials.trial import trial_id

Tree = Mapping[str, Any]

# What differs between two frozen plans: claims, seeds, groups and settings, by content.


@dataclass(frozen=True)
class FrozenGroup:
    """A group as it was frozen."""

    id: str
    settings: Tree


@dataclass(frozen=True)
class Frozen:
    """A plan as its ledger entry holds it (`plans.freezing`)."""

    claims: tuple[Tree, ...]
    seeds: tuple[int, ...]
    groups: Mapping[str, FrozenGroup]
    fields: Tree
    judged: Mapping[str, str] = field(default_factory=dict)
    """Group -> the id under which it is judged, once its tuning has chosen; empty of a study that tunes nothing."""
    tuning: Mapping[str, str] = field(default_factory=dict)
    """Group of the tuning -> its id."""
    tuning_seeds: tuple[int, ...] = ()
    labels: Mapping[str, str] | None = None
    """What groups and levels are called; None where an earlier version did not record it."""

    @staticmethod
    def of(data: Tree) -> Frozen:
        """The plan in an entry."""
        groups = {str(group["name"]): FrozenGroup(str(group["id"]), {**group["settings"]}) for group in data["groups"]}
        claims = tuple({"text": str(claim["text"]), **claim} for claim in data["claims"])
        tuning = data.get("tuning") or {"groups": (), "seeds": ()}
        tried = {str(group["name"]): str(group["id"]) for group in tuning["groups"]}
        seeds, own = (tuple(int(seed) for seed in each["seeds"]) for each in (data, tuning))
        return Frozen(claims, seeds, groups, {**data["fields"]}, {}, tried, own, data.get("labels"))

    @property
    def picked_seeds(self) -> bool:
        """Whether somebody has listed seeds that are not the first 0, 1, 2, …"""
        return sorted(self.seeds) != list(range(len(self.seeds)))

    @property
    def ids(self) -> Iterator[tuple[str, str, int]]:
        """Trial id, group and seed of everything that the plan runs, as far as it is known."""
        arms = [(name, group.id) for name, group in self.groups.items()]
        for seeds, groups in (
            (self.seeds, [*arms, *self.judged.items()]),
            (self.tuning_seeds, list(self.tuning.items())),
        ):
            yield from ((trial_id(identity, seed), name, seed) for name, identity in groups for seed in seeds)


@dataclass(frozen=True)
class Event:
    """A difference between two plans, or something that happened to results or ledger; and what was known by then."""

    what: str
    """`claim changed`; with underscores, the code of its fact."""
    at: str
    finished: int
    """Trials that had a result by then."""
    looks: int
    """How often verdicts had been computed by then."""
    detail: Tree

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return {"what": self.what, "at": self.at, "finished": self.finished, "looks": self.looks, **self.detail}


_Found = Iterator[tuple[str, dict[str, Any]]]


def changes_between(old: Frozen, new: Frozen, at: str, finished: Collection[str], looks: int) -> list[Event]:
    """Every change from one plan to the next. `finished` are the trials that had a result."""
    found = [*_claims(old, new), *_seeds(old, new, finished), *_groups(old, new, finished), *_fields(old, new)]
    return [Event(what, at, len(finished), looks, detail) for what, detail in found]


def _claims(old: Frozen, new: Frozen) -> _Found:
    """Claims that are the same by content are paired first, then those of the same text, then of the same number."""
    left, right = dict(enumerate(old.claims)), dict(enumerate(new.claims))

    def pair(alike: Any) -> Iterator[tuple[int, int]]:
        for i, was in list(left.items()):
            match = next((j for j, now in right.items() if alike(was, now)), None)
            if match is not None:
                del left[i], right[match]
                yield i, match

    list(pair(lambda was, now: was == now))
    edited = list(pair(lambda was, now: was["text"] == now["text"]))
    edited += list(pair(lambda was, now: "metric" in was and _subject(was) == _subject(now)))
    if len(old.claims) == len(new.claims):
        edited += [(i, i) for i in list(left) if i in right]
        for i, _ in edited:
            if i in left and i in right:
                del left[i], right[i]
    for i, j in edited:
        yield "claim changed", {"claim": j + 1, "was": old.claims[i], "is": new.claims[j]}
    for j, now in right.items():
        yield "claim added", {"claim": j + 1, "is": now}
    for i, was in left.items():
        yield "claim removed", {"claim": i + 1, "was": was}


def _subject(claim: Tree) -> tuple[Any, ...]:
    return claim.get("metric"), claim.get("arms"), claim.get("at"), claim.get("op")


def _seeds(old: Frozen, new: Frozen, finished: Collection[str]) -> _Found:
    both = {"was": list(old.seeds), "is": list(new.seeds)}
    added = [seed for seed in new.seeds if seed not in set(old.seeds)]
    removed = [seed for seed in old.seeds if seed not in set(new.seeds)]
    if added:
        seen = len({seed for trial, _, seed in old.ids if trial in finished and seed in set(old.seeds)})
        yield "seeds added", {**both, "added": added, "seen": seen}
    if removed:
        lost = sum(trial in finished and seed in set(removed) for trial, _, seed in old.ids)
        yield "seeds removed", {**both, "removed": removed, "lost_trials": lost}


def _groups(old: Frozen, new: Frozen, finished: Collection[str]) -> _Found:
    names = {group.id: name for name, group in old.groups.items()}
    kept = {group.id for group in new.groups.values()}
    added, settings = [], []
    for name, group in new.groups.items():
        before = old.groups.get(name)
        if before is not None and before.id != group.id and before.id not in kept and group.id not in names:
            settings.append(name)
            yield "settings changed", {"group": name, "was": dict(before.settings), "is": dict(group.settings)}
        elif group.id in names and names[group.id] != name:
            yield "group renamed", {"was": names[group.id], "is": name}
        elif group.id not in names:
            added.append(name)
    if added:
        yield "groups added", {"added": added}
    gone = [name for name, group in old.groups.items() if group.id not in kept and name not in settings]
    if gone:
        lost = sum(trial_id(old.groups[name].id, seed) in finished for name in gone for seed in old.seeds)
        yield "groups removed", {"removed": gone, "lost_trials": lost}


def _fields(old: Frozen, new: Frozen) -> _Found:
    for name in dict.fromkeys([*old.fields, *new.fields]):
        was, now = old.fields.get(name), new.fields.get(name)
        if was != now:
            yield "field changed", {"field": name, "was": was, "is": now}
    if old.labels is not None and new.labels is not None and old.labels != new.labels:
        yield "labels changed", {"was": old.labels, "is": new.labels}


# The ledger, read from its first entry to its last.


@dataclass(frozen=True)
class History:
    """The ledger of a run, read."""

    entries: tuple[Entry, ...] = ()
    problems: tuple[str, ...] = ()
    """What is wrong with the ledger itself."""
    beside: tuple[str, ...] = ()
    """Folders of earlier attempts that lie beside the run."""
    changes: tuple[Event, ...] = ()
    """Of the plan."""
    looks: int = 0
    """How often verdicts were computed on results or claims that differ from those of the look before."""
    happened: tuple[Event, ...] = ()
    """What became of the results in the folder, and of the ledger."""
    rerun: tuple[str, ...] = ()
    """Trials that were run twice and gave different results."""
    missing: bool = False
    """Whether the ledger that the run must have is not there."""
    picked: tuple[int, ...] = ()
    """The seeds of the latest plan, if they are not the first 0, 1, 2, …"""

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
        numbers: list[int] = [entry.data.get("attempt", 1) for entry in self.entries if entry.kind == "begun"]
        return max([1 + len(self.beside), *numbers])

    @property
    def since(self) -> str | None:
        """When the plan was frozen first."""
        return next((entry.at for entry in self.entries if entry.kind == "plan"), None)


def read_history(folder: Path) -> History:
    """The history of a run."""
    ledger = read_ledger(folder)
    beside = tuple(path.name for path in attempts_beside(folder.absolute()))
    if ledger is None:
        return History(beside=beside, missing=True)
    return history_of(ledger, beside, folder / LEDGER)


def history_of(ledger: Ledger, beside: Sequence[str] = (), path: Path = Path(LEDGER)) -> History:
    """What a ledger tells."""
    walk = _Walk()
    problems = list(ledger.problems)
    for entry in ledger.entries:
        walk.take(entry)
    if ledger.cut:
        problems.append(f"{path}: the last {ledger.cut:,} of its entries were removed")
    if ledger.torn:
        problems.append(f"{path}: its last line is torn; the next run in this folder repairs it")
    return History(
        ledger.entries,
        tuple(problems),
        tuple(beside),
        tuple(walk.changes),
        walk.looks,
        tuple(walk.happened),
        tuple(walk.named(walk.rerun)),
        picked=walk.picked,
    )


class _Walk:
    def __init__(self) -> None:
        self.changes: list[Event] = []
        self.looks = 0
        self.happened: list[Event] = []
        self.rerun: dict[str, None] = {}
        self._plans: list[Frozen] = []
        self._digests: dict[str, tuple[str, str]] = {}
        """Trial -> digest and status of its latest result."""

    def take(self, entry: Entry) -> None:
        """One entry after the other; kinds that later versions may add are passed over."""
        if entry.kind in ("plan", "tuned", "trials", "look", "missing", "altered", "set_aside", "cut", "repaired"):
            getattr(self, f"_{entry.kind}")(entry)

    @property
    def picked(self) -> tuple[int, ...]:
        """The seeds of the latest plan, if somebody has listed them."""
        return self._plans[-1].seeds if self._plans and self._plans[-1].picked_seeds else ()

    @property
    def _finished(self) -> set[str]:
        return {trial for trial, (_, status) in self._digests.items() if status != "failed"}

    def _plan(self, entry: Entry) -> None:
        plan = Frozen.of(entry.data)
        if self._plans:
            self.changes += changes_between(self._plans[-1], plan, entry.at, self._finished, self.looks)
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
        self.looks += 1

    def _missing(self, entry: Entry) -> None:
        names = self.named(str(trial) for trial, _, *_ in entry.data["trials"])
        self._note("trials removed", entry, trials=names)

    def _altered(self, entry: Entry) -> None:
        was, now = ({str(row[0]): row[1] for row in rows} for rows in (entry.data["was"], entry.data["trials"]))
        names = self.named(trial for trial in {**was, **now} if was.get(trial) != now.get(trial))
        self._note("chunk altered", entry, chunk=entry.data["chunk"], trials=names)
        self._trials(entry)

    def _set_aside(self, entry: Entry) -> None:
        data = entry.data
        self._note("chunk damaged", entry, chunk=data["chunk"], kept=data["kept"], trials=data["trials"])

    def _cut(self, entry: Entry) -> None:
        self._note("ledger cut", entry, entries=int(entry.data["entries"]))

    def _repaired(self, entry: Entry) -> None:
        self._note("ledger repaired", entry)

    def _note(self, what: str, entry: Entry, **detail: Any) -> None:
        self.happened.append(Event(what, entry.at, len(self._digests), self.looks, detail))

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
