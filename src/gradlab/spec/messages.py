"""Turn validation errors into messages that a user can act on: what was expected, what was found, the nearest name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from gradlab.errors import Problem, StudyError, Where, nearest, shortened, write_path
from gradlab.words import join

NAME_PATTERN = r"^[^\W_A-Z][\w.-]{0,59}$"
LABEL_PATTERN = r"^[^\x00-\x1f\x7f]+$"
PATTERNS = {
    NAME_PATTERN: "use at most 60 lowercase letters, digits, '.', '_' and '-', starting with a letter or a digit",
    LABEL_PATTERN: "use a single line without control characters",
}
"""What a pattern asks for, in words."""
_BRANCH = re.compile(r"^(tuple\[|literal\[|constrained-|function-|model-|dict|int$|float$|str$|lax-or|list\[|Taper$)")
"""How the accepted forms of a field with several appear in an error's place."""
_EXPECTED = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number of usual size",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping (key: value)",
    "mapping_type": "a mapping (key: value)",
    "model_type": "a mapping (key: value)",
    "model_attributes_type": "a mapping (key: value)",
    "dataclass_type": "a mapping (key: value)",
    "dataclass_exact_type": "a mapping (key: value)",
    "none_required": "nothing",
}
"""What a type of error says that the value should have been."""
_BOUNDS = {
    "greater_than": ("above", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("below", "lt"),
    "less_than_equal": ("at most", "le"),
}


def study_error(error: ValidationError, tree: Any) -> StudyError:
    """Return a `StudyError` with the problems of a tree, each with its place in the tree."""
    return StudyError(problems=find_problems(error, tree))


def first_problem(error: ValidationError, tree: Any) -> tuple[str, str]:
    """Return path and message of the first problem; the path is empty if the problem is the whole value."""
    found = find_problems(error, tree)[0]
    return write_path(found.where), found.message


def find_problems(error: ValidationError, tree: Any) -> tuple[Problem, ...]:
    """Return what is wrong with a tree, each field once."""
    by_field: dict[Where, list[Any]] = {}
    for number, problem in enumerate(error.errors()):
        path, branch = _place(problem, tree)
        field = path[:branch] if branch is not None else (*path, f"\0{number}")  # only forms of one field are grouped
        by_field.setdefault(field, []).append((path, problem))
    found = [problem for same in by_field.values() for problem in _of_meant_form(same)]
    return tuple(dict.fromkeys(found))


def shown(value: object) -> str:
    """Return a value as a study file has it, shortened to fit in a message."""
    if value is None:
        return "nothing"
    return str(value).lower() if isinstance(value, bool) else shortened(value)


def _place(problem: Any, tree: Any) -> tuple[Where, int | None]:
    """Return the path of a problem, and how many keys of it are above the first choice between accepted forms."""
    path: list[str | int] = []
    branch, here = None, tree
    for key in problem["loc"]:
        inside = isinstance(here, Mapping) and key in here
        if inside or (isinstance(here, list | tuple) and isinstance(key, int)):
            path.append(str(key) if isinstance(here, Mapping) else key)
            here = here[key] if inside or key < len(here) else None
        elif isinstance(key, str) and _BRANCH.match(key):
            branch = len(path) if branch is None else branch
        elif key != "[key]":
            path.append(key)
            here = None
    below = problem.get("ctx", {}).get("where")
    return (*path, below) if below else tuple(path), branch


def _of_meant_form(same: list[tuple[Where, Any]]) -> list[Problem]:
    """Return the problems of the accepted form that was probably meant: of the one that got furthest.

    If no form fits the value's type, the value is the problem, and all forms are what was expected.
    """
    wrong_type = [(path, problem) for path, problem in same if _expectations(problem)]
    inside = [pair for pair in same if pair not in wrong_type and not _is_too_short(pair[1])]
    longest = max(len(path) for path, _ in inside or same)
    chosen = [pair for pair in inside or same if len(pair[0]) == longest]
    if inside or not wrong_type:
        return [Problem(_message(problem), path) for path, problem in chosen]
    alike = [problem for path, problem in wrong_type if len(path) == longest] or [problem for _, problem in wrong_type]
    value = alike[0].get("input")
    literals = [word for problem in alike for word in _literals(problem)]
    expected = list(dict.fromkeys(word for problem in alike for word in _expectations(problem)))
    path = next(path for path, problem in wrong_type if problem is alike[0])
    return [Problem(f"{join(expected, 'or')} was expected, not {shown(value)}{_hint(value, literals)}", path)]


def _hint(value: object, literals: list[str]) -> str:
    if isinstance(value, bool) and literals:
        return " (YAML reads yes, on, no and off as true and false)"
    return nearest(value, literals)


def _is_too_short(problem: Any) -> bool:
    return bool(problem["type"] == "too_short")


def _literals(problem: Any) -> list[str]:
    return re.findall(r"'([^']*)'", problem["ctx"]["expected"]) if problem["type"] == "literal_error" else []


def _expectations(problem: Any) -> list[str]:
    """Return what the value should have been; empty if the problem is not its type."""
    if problem["type"] == "literal_error":
        return _literals(problem)
    return [_EXPECTED[problem["type"]]] if problem["type"] in _EXPECTED else []


def _message(problem: Any) -> str:
    kind, value, context = problem["type"], problem.get("input"), problem.get("ctx", {})
    if kind == "gradlab":
        return str(context["message"])
    if kind == "missing":
        return "missing"
    if expected := _expectations(problem):
        return f"{join(expected, 'or')} was expected, not {shown(value)}{_hint(value, _literals(problem))}"
    if kind in _BOUNDS:
        words, key = _BOUNDS[kind]
        return f"must be {words} {_number(context[key])}, not {shown(value)}"
    if kind in ("string_too_short", "too_short"):
        least = context["min_length"]
        return "must not be empty" if least == 1 else f"needs at least {least} items"
    if kind in ("string_too_long", "too_long"):
        return f"must have at most {context['max_length']:,} {'characters' if kind.startswith('string') else 'items'}"
    if kind == "string_pattern_mismatch":
        return f"{PATTERNS.get(context['pattern'], 'is not accepted')}, not {shown(value)}"
    return f"{shown(value)} cannot be used here"


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,g}"
