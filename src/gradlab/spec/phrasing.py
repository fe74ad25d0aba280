"""Groups inside a sentence: `at 30 layers without the skip`, `the arm with 5 layers`, `in the plain network`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from gradlab.spec.naming import ON_OFF, Names
from gradlab.spec.paths import choice_at
from gradlab.spec.selection import matches, path_of

AT = ("model.depth", "model.width", "train.lr", "model.init.scale", "train.steps", "train.epochs")
"""Paths whose levels are points on a scale: a network is measured *at* them."""
NOUNS = {"model.depth": "depth", "model.width": "width", "train.batch": "batch size", "train.lr": "learning rate"}
"""What a setting is called by itself, where the last word of its path is not good enough."""


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
    told = [
        f"{preposition} {join(words, 'or' if preposition == 'without' else 'and')}"
        for preposition, words in said.items()
        if words
    ]
    if len(told) > 1 and told[-1].startswith("without") and told[-2].startswith("with "):
        return " ".join([*told[:-2], f"{told[-2]} and {told[-1]}"])
    return " ".join(told)


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
    told = []
    for part in selector.split(", "):
        axis, _, level = part.partition("=")
        path = path_of(axis, names.axes)
        value = next((value for value in names.axes[path] if matches(value, level)), None) if path else None
        told.append(part if path is None or value is None else names.level(path, value))
    return ", ".join(told)


def name_setting(names: Names, path: str) -> str:
    """What a setting is called by itself: `depth`, `init scale`."""
    return NOUNS.get(path) or names.axis(path)


def say_settings(paths: Sequence[str]) -> str:
    """Settings by name, those of one part together: `the skip and the init (kind and bias)`."""
    owners: dict[str, list[str]] = {}
    for path in paths:
        *above, last = path.split(".")
        below = len(above) > 1
        owners.setdefault(".".join(above) if below else path, []).extend([last.replace("_", " ")] if below else [])
    told = []
    for owner, inside in owners.items():
        own = NOUNS.get(owner, owner.split(".")[-1].replace("_", " "))
        told.append(f"the {own} ({join(inside)})" if len(inside) > 1 else f"the {' '.join([own, *inside])}")
    return join(told)


def say_together(paths: Sequence[str]) -> str:
    """Several settings as one subject: `kind and bias of the init`, `the skip and the norm`."""
    owners = {path.rpartition(".")[0] for path in paths}
    if len(owners) > 1 or all(path.count(".") < 2 for path in paths):
        return say_settings(paths)
    last = [path.split(".")[-1].replace("_", " ") for path in paths]
    return f"{join(last)} of the {owners.pop().split('.')[-1].replace('_', ' ')}"


def with_article(words: str) -> str:
    """`a fixed rate`, `an exponential schedule`."""
    return f"{'an' if words[:1].lower() in 'aeiou' else 'a'} {words}"


def join(words: Sequence[str], last: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    return f" {last} ".join(filter(None, (", ".join(words[:-1]), words[-1]))) if words else ""


def capital(text: str) -> str:
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]
