"""What differs between two frozen plans: claims, seeds, groups and settings, by content."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from gradlab.analysis.measured import Measured
from gradlab.runs.store.ledger import LEDGER, Entry, Ledger, attempts_beside, read_ledger
from gradlab.spec.numerals import counted
from gradlab.trials.trial import trial_id

Tree = Mapping[str, Any]


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
class Change:
    """A difference between two plans, and what was known when it was made."""

    what: str
    at: str
    finished: int
    """Trials that had a result by then."""
    looks: int
    """How often verdicts had been computed by then."""
    detail: Tree
    sentence: str
    """For the report, if there were results."""

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return {
            "what": self.what,
            "at": self.at,
            "finished": self.finished,
            "looks": self.looks,
            **self.detail,
            "sentence": self.sentence,
        }


def changes_between(old: Frozen, new: Frozen, at: str, finished: Collection[str], looks: int) -> list[Change]:
    """Every change from one plan to the next. `finished` are the trials that had a result."""
    found = [*_claims(old, new), *_seeds(old, new, finished, looks), *_groups(old, new, finished), *_fields(old, new)]
    found += _labels(old, new)
    return [Change(what, at, len(finished), looks, detail, sentence) for what, detail, sentence in found]


_Found = Iterator[tuple[str, dict[str, Any], str]]
AFTER = "after results were known"


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
        was, now = old.claims[i], new.claims[j]
        said = "" if was["text"] != now["text"] else f" (“{now['text']}”)"
        sentence = f"Claim {j + 1}{said} was changed {AFTER}: {_differences(was, now)}."
        yield "claim changed", {"claim": j + 1, "was": was, "is": now}, sentence
    for j, now in right.items():
        yield "claim added", {"claim": j + 1, "is": now}, f"Claim {j + 1} was added {AFTER}: {_claim(now)}."
    for i, was in left.items():
        yield "claim removed", {"claim": i + 1, "was": was}, f"A claim was removed {AFTER}: {_claim(was)}."


def _subject(claim: Tree) -> tuple[Any, ...]:
    return claim.get("metric"), claim.get("arms"), claim.get("at"), claim.get("op")


def _seeds(old: Frozen, new: Frozen, finished: Collection[str], looks: int) -> _Found:
    added = [seed for seed in new.seeds if seed not in set(old.seeds)]
    removed = [seed for seed in old.seeds if seed not in set(new.seeds)]
    if added:
        seen = len({seed for trial, _, seed in old.ids if trial in finished and seed in set(old.seeds)})
        sentence = (
            f"{_counted_were(len(added), 'seed')} added after {seen:,} had been seen; verdicts had been "
            f"looked at {times(looks)} before."
        )
        yield "seeds added", {"was": list(old.seeds), "is": list(new.seeds), "added": added}, sentence
    if removed:
        lost = sum(trial in finished and seed in set(removed) for trial, _, seed in old.ids)
        sentence = (
            f"{_counted_were(len(removed), 'seed')} removed {AFTER} ({_listed(removed)}); "
            f"{counted(lost, 'finished trial')} of {'it' if len(removed) == 1 else 'them'} "
            f"{'is' if lost == 1 else 'are'} not in this report."
        )
        yield "seeds removed", {"was": list(old.seeds), "is": list(new.seeds), "removed": removed}, sentence


def _groups(old: Frozen, new: Frozen, finished: Collection[str]) -> _Found:
    names = {group.id: name for name, group in old.groups.items()}
    kept = {group.id for group in new.groups.values()}
    added, settings = [], []
    for name, group in new.groups.items():
        before = old.groups.get(name)
        if before is not None and before.id != group.id and before.id not in kept and group.id not in names:
            told = _differences(before.settings, group.settings) or "what all groups share"
            detail = {"group": name, "was": dict(before.settings), "is": dict(group.settings)}
            settings.append(name)
            yield "settings changed", detail, f"The settings of {name} were changed {AFTER}: {told}."
        elif group.id in names and names[group.id] != name:
            detail = {"was": names[group.id], "is": name}
            yield "group renamed", detail, f"The group {names[group.id]} was renamed to {name} {AFTER}."
        elif group.id not in names:
            added.append(name)
    if added:
        word = _counted_were(len(added), "group")
        yield "groups added", {"added": added}, f"{word} added {AFTER}: {_listed(added)}."
    gone = [name for name, group in old.groups.items() if group.id not in kept and name not in settings]
    if gone:
        lost = sum(trial_id(old.groups[name].id, seed) in finished for name in gone for seed in old.seeds)
        word = _counted_were(len(gone), "group")
        sentence = f"{word} removed {AFTER}: {_listed(gone)} ({counted(lost, 'finished trial')})."
        yield "groups removed", {"removed": gone}, sentence


def _labels(old: Frozen, new: Frozen) -> _Found:
    was, now = old.labels, new.labels
    if was is not None and now is not None and was != now:
        yield "labels changed", {"was": was, "is": now}, f"Labels were changed {AFTER}: {_differences(was, now)}."


def _fields(old: Frozen, new: Frozen) -> _Found:
    for name in dict.fromkeys([*old.fields, *new.fields]):
        was, now = old.fields.get(name), new.fields.get(name)
        if was != now:
            sentence = f"The study's {name} was changed {AFTER}: it was {_word(was)}, it is {_word(now)}."
            yield "field changed", {"field": name, "was": was, "is": now}, sentence


def _differences(was: Tree, now: Tree) -> str:
    keys = [key for key in dict.fromkeys([*was, *now]) if was.get(key) != now.get(key)]
    return "; ".join(f"{key} was {_word(was.get(key))}, is {_word(now.get(key))}" for key in keys)


def _claim(claim: Tree) -> str:
    """`“The skip ends lower” (final_loss, residual < plain)`."""
    if "metric" not in claim:
        return f"“{claim['text']}”"
    arms, bound = claim.get("arms"), claim.get("value")
    sides = [str(arm) for arm in arms] if isinstance(arms, list) else [] if arms is None else [str(arms)]
    values = [] if bound is None else [_word(bound)]
    op = f" {claim.get('op')} "
    words = op.join([*sides, *values]) if len(sides) + len(values) > 1 else f"{claim.get('op')} {_listed(sides)}"
    return f"“{claim['text']}” ({claim['metric']}, {words.strip()})"


def _word(value: Any) -> str:
    if value is None:
        return "not given"
    if isinstance(value, str):
        text = f"“{value}”" if " " in value else value
    elif isinstance(value, list):
        text = f"[{', '.join(_word(each) for each in value)}]"
    elif isinstance(value, dict):
        text = ", ".join(f"{key}: {_word(each)}" for key, each in value.items())
    else:
        text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 160 else f"{text[:159]}…"


# What happened to a run, by its ledger: what was frozen, changed and looked at; and the remarks for its report.

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

    @cached_property
    def remarks(self) -> tuple[str, ...]:
        """What a reader of the report has to know; nothing if the run went as planned."""
        return (
            *self._about_freezing(),
            *self._about_attempts(),
            *_told(self.changes),
            *self._about_seeds(),
            *self._about_results(),
        )

    def _about_seeds(self) -> Iterable[str]:
        if self.picked:
            count = len(self.picked)
            first = "0" if count == 1 else f"0 to {count - 1:,}"
            yield f"Seeds were listed by hand ({_listed(self.picked)}), not taken as {first}."

    def _about_freezing(self) -> Iterable[str]:
        if self.missing:
            yield "The ledger of this run is missing: whether claims or seeds were changed is not known."
        elif not self.entries and not self.problems:
            yield UNFROZEN
        if self.unknown is not None:
            yield (
                f"Claims not frozen: the ledger was removed and begins at {self.unknown.at}; what was changed or "
                "looked at earlier is not known."
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
            yield f"{counted(len(self.rerun), 'trial')} run twice gave different results: {_listed(self.rerun)}."

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "frozen": self.frozen,
            "since": self.since,
            "attempt": self.attempt,
            "beside": list(self.beside),
            "looks": self.looks,
            "picked_seeds": list(self.picked),
            "changes": [change.to_json() for change in self.changes],
            "problems": list(self.problems),
            "entries": len(self.entries),
            "sha256": self.entries[-1].sha256 if self.entries else None,
            "remarks": list(self.remarks),
        }


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
        len(walk.looks),
        tuple(walk.happened),
        tuple(walk.named(walk.rerun)),
        picked=walk.picked,
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
    if plan.tuning is None or not plan.pending:
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

    @property
    def picked(self) -> tuple[int, ...]:
        """The seeds of the latest plan, if somebody has listed them."""
        return self._plans[-1].seeds if self._plans and self._plans[-1].picked_seeds else ()

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
            f"{_counted_were(len(names), 'trial')} removed from the folder and run again "
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
            f"Chunk {entry.data['chunk']} was damaged and is kept in {entry.data['kept']}; its "
            f"{_counted_were(count, 'trial')} run again ({entry.at})."
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


def _counted_were(count: int, noun: str) -> str:
    """`1 seed was`, `3 seeds were`."""
    return f"{counted(count, noun)} {'was' if count == 1 else 'were'}"


def _listed(values: Sequence[Any]) -> str:
    more = len(values) - SHOWN
    return ", ".join(map(str, values[:SHOWN])) + (f" and {more:,} more" if more > 0 else "")
