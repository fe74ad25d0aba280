"""Dotted paths into configuration trees: `model.init.scale`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gradlab.errors import StudyError, shortened

NAMED_BY = {"data": "task"}
"""Sections that are a choice named by another key than `kind`."""


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
        copy[key] = value
        return copy
    below = copy.get(key, {})
    if isinstance(below, str):
        below = {NAMED_BY.get(key, "kind"): below}
    if not isinstance(below, Mapping):
        raise StudyError(f"{path}: {key!r} is {shortened(below)}, it has nothing below it")
    copy[key] = with_value(below, rest, value)
    return copy


def with_all(tree: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the tree with every override in its place."""
    result = dict(tree)
    for path, value in flatten(overrides):
        result = with_value(result, path, value)
    return result


def value_at(tree: Mapping[str, Any], path: str) -> Any:
    """The value at a path of a resolved tree; a choice answers with its name."""
    value: Any = tree
    for key in path.split("."):
        if not isinstance(value, Mapping) or key not in value:
            return None
        value = value[key]
    if isinstance(value, Mapping):
        return value.get("kind", value.get("task", value))
    return value
