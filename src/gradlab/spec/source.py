"""Where a study was written: which line of its file, or which override, holds a field."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gradlab.errors import InvalidInput, Problem, Where, write_path
from gradlab.spec.config import BASE_SECTIONS
from gradlab.spec.paths import flatten

MAX_SHOWN = 5
"""Problems that one message lists."""


@dataclass(frozen=True)
class Source:
    """The place of every field of a study: `mine.yaml, line 12, base.train.lr`."""

    name: str = ""
    """The file, or the study's name."""
    tree: Any = None
    """The study as it was written."""
    lines: Mapping[Where, int] = field(default_factory=dict)
    """Lines of the file by path, from 1; empty if there is no file."""
    changes: tuple[tuple[str, str, Where], ...] = ()
    """Changes of the tree in their order: the path, what the user wrote, or where in the file."""

    def with_quick(self, quick: Any) -> Source:
        """Return the source of the reduced form, whose fields stand in the section `quick`."""
        found = flatten(quick) if isinstance(quick, Mapping) else ()
        made = tuple((full_path(path), "", ("quick", path)) for path, _ in found)
        return replace(self, changes=(*self.changes, *made))

    def with_overrides(self, overrides: Iterable[tuple[str, str]]) -> Source:
        """Return the source with overrides, given as their path and what the user wrote."""
        made = tuple((full_path(path), text, ()) for path, text in overrides)
        return replace(self, changes=(*self.changes, *made))

    def place(self, error: InvalidInput) -> InvalidInput:
        """Return the error with the place of each problem in its message."""
        found = list(dict.fromkeys(self._place(problem) for problem in error.problems))
        if len(found) == 1:
            place, message = found[0]
            return type(error)(f"{', '.join(filter(None, place))}: {message}" if any(place) else message)
        lines = [f"{', '.join(filter(None, place[1:] or place))}: {message}" for place, message in found[:MAX_SHOWN]]
        more = [f"… and {len(found) - MAX_SHOWN} more"] if len(found) > MAX_SHOWN else []
        head = f"{self.name}: {len(found)} problems" if self.name else f"{len(found)} problems"
        return type(error)("\n  ".join([head, *lines, *more]))

    def _place(self, problem: Problem) -> tuple[tuple[str, ...], str]:
        """Return where a problem is, in words, and its message."""
        where = problem.where
        path = ".".join(map(str, where))
        for changed, written, quick in reversed(self.changes):
            if path and (path == changed or path.startswith(changed + ".")):
                if written:
                    return (written,), problem.message
                where = (*quick, *_split((path[len(changed) + 1 :],)))
                break
        known, rest = self._find(where)
        line = next((self.lines[known[:n]] for n in range(len(known), 0, -1) if known[:n] in self.lines), None)
        return (self.name, f"line {line}" if line else "", write_path((*known, *rest))), problem.message

    def _find(self, where: Where) -> tuple[Where, Where]:
        """Split a path into what was written and the rest, which is missing there."""
        known: list[str | int] = []
        here, rest = self.tree, list(_split(where))
        while rest:
            if isinstance(here, Mapping):
                keys = {str(key): key for key in here}
                size = next((n for n in range(len(rest), 0, -1) if ".".join(map(str, rest[:n])) in keys), 0)
                if not size:
                    return tuple(known), tuple(rest)
                key = keys[".".join(map(str, rest[:size]))]
                known.append(str(key))
                here, rest = here[key], rest[size:]
            elif isinstance(here, list | tuple) and isinstance(rest[0], int) and rest[0] < len(here):
                known.append(rest[0])
                here, rest = here[rest[0]], rest[1:]
            elif here is None:
                return tuple(known), tuple(rest)
            else:  # a short form (`activation: relu`) has no keys of its own
                return tuple(known), ()
        return tuple(known), ()


def full_path(path: str) -> str:
    """Return the path from the top of a study: an override of `train.lr` changes `base.train.lr`."""
    return f"base.{path}" if path.partition(".")[0] in BASE_SECTIONS else path


def _split(where: Where) -> Where:
    """Return the single words of a path, with list positions as numbers."""
    return tuple(word for key in where for word in (key.split(".") if isinstance(key, str) else (key,)) if word != "")
