"""Names for people: of values, axes and groups, alone (figures, tables) and inside a sentence."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

from pydantic import ValidationError

from gradlab.errors import InvalidInput, PartError, StudyError, nearest, shortened, with_article
from gradlab.parts import Catalog
from gradlab.spec.config import Group
from gradlab.spec.paths import choice_at, label, naming_key
from gradlab.spec.selection import axes_of, matches, path_of
from gradlab.words import counted, join, written


def short(path: str, value: Any, catalog: Catalog) -> str:
    """A value in words; of a part, its name and the parameters that differ from their defaults."""
    choice = choice_at(path)
    if choice is None or not isinstance(value, Mapping) or choice.key not in value:
        return label(value)
    usual = choice.own_fields()
    with suppress(PartError, ValidationError):  # a part may have parameters without a default
        usual |= catalog.make(choice.part, value[choice.key], {}).parameters()
    return label({key: item for key, item in value.items() if key not in usual or usual[key] != item})


# Names of groups for people: `30 layers, skip, default init`, without what all groups share.
#
# A level is named by the part it stands for (`Part.called`), by the words of its path, or by the study's own `labels`:
#
#     labels: {skip=none: plain, skip=add_then_activate: residual}    # levels of an axis
#     labels: {first-arm: As published}                               # named arms

NOUNS = {"train.lr": "learning rate", "train.batch": "batch size", "train.clip": "clipping norm"}
"""What a setting is called, where the last word of its path is not good enough."""
ORDER = ("model.depth", "model.width", "model.activation", "model.skip", "model.norm", "model.init", "model.init.scale")
"""In which people say them; other paths follow."""
PHRASES: Mapping[str, Callable[[Any], str]] = {
    "model.depth": lambda value: counted(value, "layer"),
    "train.steps": lambda value: counted(value, "step"),
    "train.epochs": lambda value: counted(value, "epoch"),
    "train.batch": lambda value: "full batch" if value == "full" else f"batch {_plain(value)}",
    "model.width": lambda value: f"width {_plain(value)}",
}
"""How a level of a path is said, where `word value` is not good enough."""
ON_OFF = ("skip",)
"""Kinds of part of which people say only that there is one, if the other level is none."""


class Names:
    """What people call the groups, axes and levels of a study."""

    def __init__(
        self, groups: Sequence[Group], catalog: Catalog, *, arms: bool, labels: Mapping[str, str] | None = None
    ) -> None:
        """`arms`: whether the groups have names of their own, given by the author."""
        self.groups = {group.name: group for group in groups}
        self.catalog, self.arms, self.labels = catalog, arms, dict(labels or {})

    @cached_property
    def axes(self) -> dict[str, tuple[Any, ...]]:
        """Paths in which the groups differ, each with its values: numbers by size, others as they are written."""
        unordered = axes_of(list(self.groups.values()))
        known = [path for path in ORDER if path in unordered]
        ordered = {path: unordered[path] for path in (*known, *(path for path in unordered if path not in ORDER))}
        return {path: tuple(sorted(v) if all(map(is_number, v)) else v) for path, v in ordered.items()}

    @cached_property
    def by_settings(self) -> Names:
        """The same groups named by their settings, also where the author gave them names."""
        return Names(list(self.groups.values()), self.catalog, arms=False, labels=self.labels) if self.arms else self

    def path(self, word: str) -> str:
        """The full path of an axis that is given by its path, its last word or its name."""
        path = path_of(word, self.axes) or next((path for path in self.axes if self.axis(path) == word), None)
        if path is None:
            there = [path.split(".")[-1] for path in self.axes]
            known = f"they differ in {', '.join(there)}" if there else "they differ in no setting"
            raise InvalidInput(f"{shortened(word)} is not what the groups differ in; {known}{nearest(word, there)}")
        return path

    def axis(self, path: str) -> str:
        """What an axis is called: `layers`, `skip`, `init scale`."""
        return "layers" if path == "model.depth" else name_setting(path)

    def level(self, path: str, value: Any) -> str:
        """A value of an axis, said by itself: `30 layers`, `He init`."""
        given = self._renamed(path, value)
        return (
            self._levels[path][label(value)] if given is None and path in self.axes else given or self._say(path, value)
        )

    def is_renamed(self, path: str, value: Any) -> bool:
        """Whether the study itself names this level (`labels`)."""
        return self._renamed(path, value) is not None

    def tick(self, path: str, value: Any) -> str:
        """A value on an axis that is labeled with its name: `30`."""
        given = self._renamed(path, value)
        if given is not None:
            return given
        said_by_itself = choice_at(path) is not None or isinstance(value, bool)
        return self.level(path, value) if said_by_itself else _plain(value)

    def span(self, path: str, first: Any, last: Any) -> str:
        """From one value of an axis to another: `2 to 30 layers`, `width 2 to 256`."""
        if self.level(path, last).startswith(self.tick(path, last)):
            return f"{self.tick(path, first)} to {self.level(path, last)}"
        return f"{self.level(path, first)} to {self.tick(path, last)}"

    def group(self, name: str, without: Collection[str] = ()) -> str:
        """A group by what sets it apart, leaving out paths that are said elsewhere; a named arm by its name."""
        if name in self.labels:
            return self.labels[name]
        if self.arms or name not in self.groups:
            return name
        settings = self.groups[name].settings
        words = [self.level(path, settings[path]) for path in self.axes if path not in without and path in settings]
        return ", ".join(words) or ("" if without else name)

    def settings(self, name: str) -> str:
        """All settings of a group with their paths, for a tooltip or a table."""
        if name not in self.groups:
            return name
        settings = self.groups[name].settings
        parts = [f"{path} = {short(path, value, self.catalog)}" for path, value in settings.items()]
        return f"{name}: {'; '.join(parts)}" if self.arms and parts else "; ".join(parts) or name

    # ------------------------------------------------------------------ how levels are said

    @cached_property
    def _levels(self) -> dict[str, dict[str, str]]:
        return {path: self._distinct(path, values) for path, values in self.axes.items()}

    def _distinct(self, path: str, values: Sequence[Any]) -> dict[str, str]:
        """Names of all levels of an axis: parameters are said only where two levels would have the same name."""
        said = {label(value): self._say(path, value) for value in values}
        kind = choice_at(path)
        if kind is not None and kind.part in ON_OFF and len(values) == 2:
            none = [key for key, value in zip(said, values, strict=True) if _part_name(value, kind.key) == "none"]
            if len(none) == 1:
                return {key: f"no {kind.part}" if key in none else kind.part for key in said}
        if len(set(said.values())) == len(said):
            return said
        full = {}
        for value in values:
            text, full_name = said[label(value)], short(path, value, self.catalog)
            inside = full_name[full_name.index("(") :] if "(" in full_name else ""
            full[label(value)] = f"{text} {inside}".strip()
        if len(set(full.values())) == len(full):
            return full
        return {label(value): f"{self.axis(path)} {label(value)}" for value in values}

    def _say(self, path: str, value: Any) -> str:
        kind = choice_at(path)
        if kind is not None:
            return self._say_part(kind.part, _part_name(value, kind.key))
        if path in PHRASES:
            return PHRASES[path](value)
        if isinstance(value, bool):
            return self.axis(path) if value else f"no {self.axis(path)}"
        return f"{self.axis(path)} {_plain(value)}"

    def _say_part(self, kind: str, name: str) -> str:
        with suppress(PartError):
            if called := self.catalog.get(kind, name).called:
                return called
        if name == "none":
            return f"no {kind}"
        words = name.replace("_", " ")
        return words if kind in ("activation", "optimizer", "loss", "task", "engine") else f"{words} {kind}"

    def _renamed(self, path: str, value: Any) -> str | None:
        for key, text in self.labels.items():
            axis, equals, level = key.partition("=")
            if equals and axis in (path, path.split(".")[-1]) and matches(value, level):
                return text
        return None


def check_labels(labels: Mapping[str, str], groups: Sequence[Group], catalog: Catalog) -> None:
    """Refuse a label of an axis or of an arm that the study does not have, or of a part that does not exist."""
    paths = list(dict.fromkeys(path for group in groups for path in group.settings))
    words = [*paths, *(path.split(".")[-1] for path in paths)]
    names = [group.name for group in groups]
    for key in labels:
        axis, equals, level = key.partition("=")
        if key in names:
            continue
        if not equals or axis not in words:
            hint = nearest(axis, words if equals else names)
            raise StudyError(
                f"{shortened(key)} is neither a group nor axis=level of this study{hint}", where=("labels", key)
            )
        path = next(path for path in paths if axis in (path, path.split(".")[-1]))
        kind = choice_at(path)
        there = [group.settings[path] for group in groups if path in group.settings]
        if kind is None or any(matches(value, level) for value in there) or "(" in level:
            continue
        known = catalog.names(kind.part)
        if catalog.executed and level not in known:
            raise StudyError(f"there is no {kind.part} {level!r}{nearest(level, known)}", where=("labels", key))


def is_number(value: Any) -> bool:
    """Whether a level is a number, so that its axis has an order."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _part_name(value: Any, key: str) -> str:
    return str(value[key]) if isinstance(value, Mapping) and key in value else str(value)


def _plain(value: Any) -> str:
    if is_number(value):
        return written(value, 6)
    if isinstance(value, Mapping):
        return label(value) if naming_key(value) is None else str(value[naming_key(value)])
    return str(value).replace("sqrt(depth)", "√depth").replace("_", " ")


# Groups inside a sentence: `at 30 layers without the skip`, `the arm with 5 layers`, `in the plain network`.

AT = ("model.depth", "model.width", "train.lr", "model.init.scale", "train.steps", "train.epochs")
"""Paths whose levels are points on a scale: a network is measured *at* them."""


def say_level(names: Names, path: str, value: Any) -> str:
    """A level as part of a sentence: `at 30 layers`, `without the skip`, `with He init`."""
    words = names.level(path, value)
    if names.is_renamed(path, value):
        return f"for {words}"
    kind = choice_at(path)
    switch = isinstance(value, bool) or (kind is not None and kind.part in ON_OFF)
    if words.startswith("no "):
        return f"without {'the' if switch else 'a'} {words[3:]}"
    if path in AT:
        return f"at {words}"
    if switch or words == "full batch":
        return f"with the {words}"
    return f"with {with_article(words) if kind is not None and kind.part == 'schedule' else words}"


def say_levels(names: Names, name: str, paths: Collection[str] | None = None) -> str:
    """Several levels of a group: `at 30 layers without the skip`; all in which groups differ, or only these paths."""
    settings = names.groups[name].settings
    said: dict[str, list[str]] = {"at": [], "for": [], "with": [], "without": []}
    for path in names.axes:
        if path in settings and (paths is None or path in paths):
            preposition, _, words = say_level(names, path, settings[path]).partition(" ")
            said[preposition].append(words)
    phrases = [
        f"{preposition} {join(words, 'or' if preposition == 'without' else 'and')}"
        for preposition, words in said.items()
        if words
    ]
    if len(phrases) > 1 and phrases[-1].startswith("without") and phrases[-2].startswith("with "):
        return " ".join([*phrases[:-2], f"{phrases[-2]} and {phrases[-1]}"])
    return " ".join(phrases)


def say_inside(names: Names, name: str) -> str:
    """Where something happens: `in the plain network`, `for uniform init`, `at 30 layers without the skip`."""
    said = names.group(name)
    whole = f"{'in' if said.startswith('the ') else 'for'} {said}"
    if said.startswith("no "):
        whole = f"without {with_article(said[3:])}"
    return whole if names.arms or name not in names.groups or not names.axes else say_levels(names, name) or whole


def say_subject(names: Names, name: str) -> str:
    """A group that does something: `the plain network`, `the arm with 5 layers, no skip`."""
    said = names.group(name)
    return said if names.arms or name not in names.groups or not names.axes else f"the arm with {said}"


def say_selector(names: Names, selector: str) -> str:
    """The groups that a claim selects: `the plain network`, `30 layers, no skip`; as it stands if they have no name."""
    if selector in names.groups:
        return names.group(selector)
    words = []
    for part in selector.split(", "):
        axis, _, level = part.partition("=")
        path = path_of(axis, names.axes)
        value = next((value for value in names.axes[path] if matches(value, level)), None) if path else None
        words.append(part if path is None or value is None else names.level(path, value))
    return ", ".join(words)


def name_setting(path: str) -> str:
    """What a setting is called by itself: `depth`, `init scale`, `learning rate`."""
    *above, last = path.split(".")
    return NOUNS.get(path) or f"{f'{above[-1]} ' if len(above) > 1 else ''}{last}".replace("_", " ")


def say_settings(paths: Sequence[str]) -> str:
    """Settings by name, those of one part together: `the skip and the init (kind and bias)`."""
    owners: dict[str, list[str]] = {}
    for path in paths:
        *above, last = path.split(".")
        below = len(above) > 1
        owners.setdefault(".".join(above) if below else path, []).extend([last.replace("_", " ")] if below else [])
    nouns = []
    for owner, inside in owners.items():
        noun = name_setting(owner)
        nouns.append(f"the {noun} ({join(inside)})" if len(inside) > 1 else f"the {' '.join([noun, *inside])}")
    return join(nouns)


def say_together(paths: Sequence[str]) -> str:
    """Several settings as one subject: `kind and bias of the init`, `the skip and the norm`."""
    owners = {path.rpartition(".")[0] for path in paths}
    if len(owners) > 1 or all(path.count(".") < 2 for path in paths):
        return say_settings(paths)
    last = [path.split(".")[-1].replace("_", " ") for path in paths]
    return f"{join(last)} of the {owners.pop().split('.')[-1].replace('_', ' ')}"
