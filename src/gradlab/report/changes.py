"""What differs between two frozen plans: claims, seeds, groups and settings, by content."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

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

    @staticmethod
    def of(data: Tree) -> Frozen:
        """The plan in an entry; a `TypeError`, `KeyError` or `ValueError` where it does not have the shape of one."""
        groups = {str(group["name"]): FrozenGroup(str(group["id"]), {**group["settings"]}) for group in data["groups"]}
        claims = tuple({"text": str(claim["text"]), **claim} for claim in data["claims"])
        tuning = data.get("tuning") or {"groups": (), "seeds": ()}
        tried = {str(group["name"]): str(group["id"]) for group in tuning["groups"]}
        seeds, own = (tuple(int(seed) for seed in each["seeds"]) for each in (data, tuning))
        return Frozen(claims, seeds, groups, {**data["fields"]}, {}, tried, own)

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
            f"{_count(len(added), 'seed was', 'seeds were')} added after {seen:,} had been seen; verdicts had been "
            f"looked at {'once' if looks == 1 else f'{looks:,} times'} before."
        )
        yield "seeds added", {"was": list(old.seeds), "is": list(new.seeds), "added": added}, sentence
    if removed:
        lost = sum(trial in finished and seed in set(removed) for trial, _, seed in old.ids)
        sentence = (
            f"{_count(len(removed), 'seed was', 'seeds were')} removed {AFTER} ({_some(removed)}); "
            f"{_count(lost, 'finished trial', 'finished trials')} of {'it' if len(removed) == 1 else 'them'} "
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
        word = _count(len(added), "group was", "groups were")
        yield "groups added", {"added": added}, f"{word} added {AFTER}: {_some(added)}."
    gone = [name for name, group in old.groups.items() if group.id not in kept and name not in settings]
    if gone:
        lost = sum(trial_id(old.groups[name].id, seed) in finished for name in gone for seed in old.seeds)
        word = _count(len(gone), "group was", "groups were")
        sentence = f"{word} removed {AFTER}: {_some(gone)} ({_count(lost, 'finished trial', 'finished trials')})."
        yield "groups removed", {"removed": gone}, sentence


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
    words = op.join([*sides, *values]) if len(sides) + len(values) > 1 else f"{claim.get('op')} {_some(sides)}"
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


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _some(values: list[Any]) -> str:
    more = len(values) - 5
    return ", ".join(map(str, values[:5])) + (f" and {more:,} more" if more > 0 else "")
