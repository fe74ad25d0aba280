"""Turn pydantic's errors into messages that a user can act on: path, value, what is accepted, nearest name."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from gradlab.errors import StudyError, nearest, shortened

_BRANCH = re.compile(r"^(tuple\[|literal\[|constrained-|function-|model-|dict|int$|float$|str$|lax-or|list\[|Taper$)")
_MAX_SHOWN = 5


def study_error(error: ValidationError, source: str, place: Callable[[str], str] = lambda path: path) -> StudyError:
    """Return a `StudyError` with one line per problem; `place` maps a path to where it is written in the file."""
    lines: list[str] = []
    for problem in _drop_other_branches(error.errors()):
        line = f"{place(_path(problem))}: {_message(problem)}"
        if line not in lines:
            lines.append(line)
    more = len(lines) - _MAX_SHOWN
    shown = lines[:_MAX_SHOWN] + ([f"… and {more} more"] if more > 0 else [])
    head = f"{source}: " if source else ""
    body = shown[0] if len(shown) == 1 else "\n  " + "\n  ".join(shown)
    return StudyError(head + body)


def first_problem(error: ValidationError) -> tuple[str, str]:
    """Return path and message of the first problem; the path is empty if the problem is the whole value."""
    problem = _drop_other_branches(error.errors())[0]
    return "" if _path(problem) == "study" else _path(problem), _message(problem)


def _drop_other_branches(problems: list[Any]) -> list[Any]:
    """Keep, for a field with several accepted forms, the problems of the form that was probably meant.

    That is the form that got furthest: problems inside the value rank before problems with its type.
    """

    def rank(problem: Any) -> tuple[int, bool]:
        other_form = problem["type"] == "literal_error" and not isinstance(problem.get("input"), str)
        return len(_path(problem)), not (other_form or problem["type"].endswith(("_type", "too_short")))

    by_field: dict[str, list[Any]] = {}
    for problem in problems:
        branches = [i for i, key in enumerate(problem["loc"]) if isinstance(key, str) and _BRANCH.match(key)]
        field = problem["loc"][: branches[0]] if branches else problem["loc"]
        key = ".".join(map(str, field)) if branches else f"{'.'.join(map(str, field))} {len(by_field)}"
        by_field.setdefault(key, []).append(problem)
    kept = []
    for same in by_field.values():
        best = max(map(rank, same))
        chosen = [problem for problem in same if rank(problem) == best]
        kept += (
            chosen
            if best[1]
            else chosen[:1]
            if len(same) > 1 and not _literal_errors(same)
            else _literal_errors(same) or chosen
        )
    return kept


def _literal_errors(problems: list[Any]) -> list[Any]:
    return [problem for problem in problems if problem["type"] == "literal_error"]


def _path(problem: Any) -> str:
    keys = [str(key) for key in problem["loc"] if key != "[key]" and not (isinstance(key, str) and _BRANCH.match(key))]
    where = problem.get("ctx", {}).get("where")
    return ".".join([*keys, where] if where else keys) or "study"


def _message(problem: Any) -> str:
    kind, value, context = problem["type"], problem.get("input"), problem.get("ctx", {})
    if kind == "gradlab":
        return str(context["message"])
    if kind == "missing":
        return "is missing"
    message = problem["msg"][0].lower() + problem["msg"][1:]
    if kind in ("literal_error", "enum"):
        accepted = re.findall(r"'([^']*)'", context["expected"])
        return f"{shortened(value)} is not accepted; use {context['expected']}{nearest(value, accepted)}"
    return f"{message}, not {shortened(value)}"
