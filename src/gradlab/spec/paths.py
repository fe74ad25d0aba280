"""Dotted paths into configuration trees: `model.init.scale`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gradlab.errors import StudyError, shortened

NAMED_BY = {"data": "task"}
"""Sections that are a choice named by another key than `kind`."""
KEPT = {"init": ("scale", "scale_on", "bias"), "data": ("split",)}
"""Fields of a choice itself, not of the part it names: they stay when another part is named."""


def flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The (path, value) pairs of an override tree; keys may be dotted, nested, or both.

    A mapping that names a part (`{kind: uniform, a: 0.5}`) is one value: it replaces the whole choice.
    """
    for key, value in tree.items():
        path = f"{prefix}.{key}" if prefix else str(key)
        names_a_part = isinstance(value, Mapping) and ("kind" in value or "task" in value)
        if isinstance(value, Mapping) and value and not names_a_part:
            yield from flatten(value, path)
        else:
            yield path, value


def with_value(tree: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy of the tree with the value at the path; a part's short form makes room for its parameters."""
    key, _, rest = path.partition(".")
    if not key or path.endswith("."):
        raise StudyError(f"{shortened(path)} is not a path; write it like model.init.scale")
    copy = dict(tree)
    if not rest:
        copy[key] = _renamed(key, copy.get(key), value)
        return copy
    below = copy.get(key, {})
    if isinstance(below, str):
        below = {NAMED_BY.get(key, "kind"): below}
    if not isinstance(below, Mapping):
        raise StudyError(f"{path}: {key!r} is {shortened(below)}, it has nothing below it")
    copy[key] = with_value(below, rest, value)
    return copy


def _renamed(section: str, before: Any, after: Any) -> Any:
    """Another part under the same choice: what the choice says by itself (a scale, a split) is not lost silently."""
    key = NAMED_BY.get(section, "kind")
    names_a_part = isinstance(after, str) or (isinstance(after, Mapping) and key in after)
    if section not in KEPT or not isinstance(before, Mapping) or not names_a_part:
        return after
    kept = {name: before[name] for name in KEPT[section] if name in before}
    return {**kept, **({key: after} if isinstance(after, str) else after)}


def with_all(tree: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the tree with every override in its place."""
    result = dict(tree)
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


def label(value: Any) -> str:
    """A value in one word: `scaled(scale=0.5)` for a part with parameters."""
    if not isinstance(value, Mapping):
        return str(value)
    name = value.get("kind", value.get("task", ""))
    rest = ", ".join(f"{key}={label(item)}" for key, item in value.items() if key not in ("kind", "task"))
    return f"{name}({rest})" if rest else str(name)
