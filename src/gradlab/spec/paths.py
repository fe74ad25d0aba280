"""Dotted paths into configuration trees: `model.init.scale`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel

from gradlab.errors import StudyError, shortened
from gradlab.spec.choice import Choice
from gradlab.spec.config import Config

ALTERNATIVES = {"model.depth": "blocks", "model.blocks": "depth", "model.width": "widths", "model.widths": "width"}
"""Path -> the field beside it that says the same thing in another way: setting one of them replaces the other."""
RULES = ("model.widths",)
"""Paths whose value may be a mapping that is not a section."""


@cache
def choices() -> Mapping[str, type[Choice]]:
    """Where a configuration chooses a part, read off its models: `model.init` -> `InitChoice`."""
    return dict(_choices(Config))


def _choices(model: type[BaseModel], above: str = "") -> Iterator[tuple[str, type[Choice]]]:
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, Choice):
            yield above + name, kind
        elif isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _choices(kind, f"{above}{name}.")


def choice_at(path: str) -> type[Choice] | None:
    """Which choice stands at a path of a study or of its base; None where there is none."""
    return choices().get(path.removeprefix("base."))


@cache
def _naming_keys() -> tuple[str, ...]:
    """Keys under which a choice names its part, the usual one last: a part may have a parameter of that name."""
    return tuple(sorted({choice.key for choice in choices().values()}, key=lambda key: (key == Choice.key, key)))


def naming_key(value: Any) -> str | None:
    """The key under which a mapping names a part; None if it names none."""
    return next((key for key in _naming_keys() if isinstance(value, Mapping) and key in value), None)


def flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The (path, value) pairs of an override tree; keys may be dotted, nested, or both.

    A mapping that names a part (`{kind: uniform, a: 0.5}`) is one value: it replaces the whole choice. So is a rule
    (`model.widths: {linear: [64, 16]}`).
    """
    for key, value in tree.items():
        path = f"{prefix}.{key}" if prefix else str(key)
        if isinstance(value, Mapping) and value and naming_key(value) is None and not path.endswith(RULES):
            yield from flatten(value, path)
        else:
            yield path, value


def with_value(tree: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy of the tree with the value at the path; a part's short form makes room for its parameters."""
    return _with_value(tree, path, value, "")


def _with_value(tree: Mapping[str, Any], path: str, value: Any, above: str) -> dict[str, Any]:
    key, _, rest = path.partition(".")
    if not key or path.endswith("."):
        raise StudyError(f"{shortened(path)} is not a path; write it like model.init.scale", where=path)
    copy, here = dict(tree), above + key
    if not rest:
        copy[key] = _renamed(choice_at(here), copy.get(key), value)
        if value is not None:
            copy.pop(ALTERNATIVES.get(here.removeprefix("base."), ""), None)
        return copy
    below = copy.get(key, {})
    if isinstance(below, str):
        below = {(choice_at(here) or Choice).key: below}
    if not isinstance(below, Mapping):
        raise StudyError(f"{key!r} is {shortened(below)}; it has nothing below it", where=path)
    copy[key] = _with_value(below, rest, value, f"{here}.")
    return copy


def _renamed(choice: type[Choice] | None, before: Any, after: Any) -> Any:
    """Another part under the same choice: what the choice says by itself (a scale, a split) is not lost silently."""
    if choice is None or not isinstance(before, Mapping):
        return after
    if not isinstance(after, str) and not (isinstance(after, Mapping) and choice.key in after):
        return after
    kept = {name: before[name] for name in choice.own_fields() if name in before}
    named = {choice.key: after} if isinstance(after, str) else after
    return {**kept, **named} if choice.own_fields() else after


def with_all(tree: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the tree with every override in its place."""
    result = dict(tree)
    given = {path: value for path, value in flatten(overrides) if value is not None}
    for path in given:
        other = ALTERNATIVES.get(path)
        if other is not None and f"model.{other}" in given:
            raise StudyError(f"model.{other} is given as well; they say the same thing, give one of them", where=path)
    for path, value in flatten(overrides):
        result = with_value(result, path, value)
    return result


def value_at(tree: Mapping[str, Any], path: str, absent: Any = None) -> Any:
    """The value at a path of a resolved tree; a choice with parameters is a mapping."""
    value: Any = tree
    for key in path.split("."):
        if not isinstance(value, Mapping) or key not in value:
            return absent
        value = value[key]
    return value


def distinct(values: Iterable[Any]) -> list[Any]:
    """Each value once, in order; values may be lists and trees, which have no hash."""
    found: list[Any] = []
    for value in values:
        if value not in found:
            found.append(value)
    return found


def label(value: Any) -> str:
    """A value in one word: `scaled(scale=0.5)` for a part with parameters."""
    if not isinstance(value, Mapping):
        return str(value)
    naming = naming_key(value)
    name = "" if naming is None else str(value[naming])
    rest = ", ".join(f"{key}={label(item)}" for key, item in value.items() if key != naming)
    return f"{name}({rest})" if rest else name
