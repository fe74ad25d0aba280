"""Study files: read, override, resolve and write them; which line or override holds a field, for messages."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gradlab.errors import InvalidInput, PartError, Problem, StudyError, Where, offer, shortened, write_path
from gradlab.parts import BUILT_IN, Catalog
from gradlab.spec import yaml_text
from gradlab.spec.config import BASE_SECTIONS, Group
from gradlab.spec.expand import expand
from gradlab.spec.messages import study_error
from gradlab.spec.paths import ALTERNATIVES, flatten, with_value
from gradlab.spec.study import Study, override_tune, reduce_tune

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


# Read, override, resolve and write study files.

DATA_PATHS = ("path", "target_path", "validation_path", "validation_target_path", "test_path", "test_target_path")
"""Parameters of a task that name a file."""

Override = str | tuple[str, Any]
"""A change of a study: `path=value`, or a path and its value."""


@dataclass(frozen=True)
class Resolved:
    """A study with its parts loaded and every group resolved, ready for planning."""

    study: Study
    groups: tuple[Group, ...]
    catalog: Catalog
    quick: bool = False
    source: Source = field(default_factory=Source, compare=False, repr=False)
    """Where its fields were written, for messages."""


def read(path: Path, called: str = "") -> tuple[dict[str, Any], Source]:
    """Read a study file: its raw tree, and where its fields stand. Messages call it `called`, or by its path."""
    name = called or str(path)
    try:
        text = path.read_text(encoding="utf8")
    except UnicodeDecodeError:
        raise StudyError(f"{name}: not a UTF-8 text file") from None
    except (OSError, ValueError) as error:
        raise StudyError(f"{name[:200]}: {getattr(error, 'strerror', None) or error}") from None
    tree, source = read_text(text, name, path.resolve().parent)
    return {**tree, "name": tree.get("name", name_from(path.stem))}, source


def read_text(text: str, name: str, folder: Path) -> tuple[dict[str, Any], Source]:
    """Read a study from its YAML text; paths in it are relative to the folder."""
    raw, lines = yaml_text.parse_with_lines(text, name)
    tree = check_tree(raw, name)
    return _resolve_paths(tree, folder), Source(name, dict(tree), lines)


def _resolve_paths(tree: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Make the paths of parts and data files relative to the study file, wherever the process is started."""
    if isinstance(tree.get("parts"), list):
        tree["parts"] = [str(folder / part) if isinstance(part, str) else part for part in tree["parts"]]
    for section in ("base", "axes", "zip"):
        tree[section] = _resolve_data_paths(tree.get(section), folder)
    if isinstance(tree.get("arms"), Mapping):
        tree["arms"] = {name: _resolve_data_paths(arm, folder) for name, arm in tree["arms"].items()}
    return {key: value for key, value in tree.items() if value is not None}


def _resolve_data_paths(tree: Any, folder: Path) -> Any:
    """Make `data.path`, `data: {path: …}` and lists of either absolute."""

    def path(value: Any) -> Any:
        if isinstance(value, list):
            return [path(item) for item in value]
        return str(folder / value) if isinstance(value, str) and value else value

    def data(value: Any) -> Any:
        if isinstance(value, list):
            return [data(item) for item in value]
        if not isinstance(value, Mapping):
            return value
        return {key: path(item) if key in DATA_PATHS else item for key, item in value.items()}

    if not isinstance(tree, Mapping):
        return tree
    change = {**{f"data.{key}": path for key in DATA_PATHS}, "data": data}
    return {key: change.get(key, lambda value: value)(value) for key, value in tree.items()}


def check_tree(raw: Any, source: str) -> dict[str, Any]:
    """Return the raw tree as a dict; a `StudyError` if it is not a mapping."""
    if not isinstance(raw, Mapping):
        found = "it is empty" if raw is None else f"this is {_kind(raw)}"
        raise StudyError(f"{source}: a study needs a question, a base, and arms or axes; {found}")
    return dict(raw)


def _kind(raw: Any) -> str:
    return f"a list of {len(raw)} items" if isinstance(raw, list) else f"the single value {shortened(raw)}"


def name_from(stem: str) -> str:
    """Make a study name from a file name: lowercase letters of any script, digits, dot, dash."""
    return re.sub(r"[^\w.-]+", "-", unicodedata.normalize("NFC", stem.lower())).strip("-._")[:60] or "study"


def apply_overrides(tree: Mapping[str, Any], overrides: Iterable[Override]) -> dict[str, Any]:
    """Apply `path=value` texts or pairs in order; paths below data, model and train belong to the base."""
    result = dict(tree)
    for override in overrides:
        path, value = parse_override(override)
        try:
            result = _override(result, path, value)
        except StudyError as error:
            raise StudyError(f"{name_override(override)[1]}: {error.problems[0].message}") from None
    return result


def name_override(override: Override) -> tuple[str, str]:
    """Return the path of an override, and what the user wrote."""
    if isinstance(override, str):
        return override.partition("=")[0].strip(), f"--set {shortened(override, 60)[1:-1]}"
    return override[0], f"overrides[{override[0]!r}]"


def parse_override(text: Override) -> tuple[str, Any]:
    """Return the path and the value of an override, given as `path=value` or as a pair."""
    if not isinstance(text, str):
        return text
    path, equals, value = text.partition("=")
    path = path.strip()
    if not equals or not path:
        raise StudyError(f"--set {shortened(text)}: write it as path=value, such as train.lr=3e-4")
    return path, yaml_text.parse(value, name_override(text)[1])


def _override(tree: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    first, _, rest = path.partition(".")
    if first in BASE_SECTIONS:
        for swept in ("axes", "zip"):
            if isinstance(tree.get(swept), Mapping) and path in tree[swept]:
                raise StudyError(f"the study sweeps {path}; set {swept}.{path}=[…] instead")
            other = f"{first}.{ALTERNATIVES.get(path)}"
            if isinstance(tree.get(swept), Mapping) and other in tree[swept]:
                raise StudyError(f"the study sweeps {other}; set {swept}.{other}=[…] instead")
        base = tree.get("base")
        return tree | {"base": with_value(base if isinstance(base, Mapping) else {}, path, value)}
    if first not in Study.model_fields:
        raise StudyError(f"{first!r} is not a field of a study{offer(first, [*BASE_SECTIONS, *Study.model_fields])}")
    if first in ("axes", "zip") and rest:
        axes = tree.get(first) or {}
        if not isinstance(axes, Mapping):
            raise StudyError(f"the study's `{first}` is {shortened(axes)}, not a mapping from paths to lists of values")
        return tree | {first: {**axes, rest: value if isinstance(value, list | Mapping) else [value]}}
    if first == "tune" and rest:
        return tree | {"tune": override_tune(tree.get("tune"), rest, value)}
    if first == "arms" and rest:
        return tree | {"arms": _override_arm(tree.get("arms"), rest, value)}
    return with_value(tree, path, value)


def _override_arm(arms: Any, path: str, value: Any) -> dict[str, Any]:
    known: dict[str, Any] = dict(arms) if isinstance(arms, Mapping) else {}
    for name in sorted(map(str, known), key=len, reverse=True):
        if path.startswith(name + "."):
            below, own = path[len(name) + 1 :], known[name] or {}
            if not isinstance(own, Mapping):
                raise StudyError(f"the study's arm {name!r} is {shortened(own)}, not a mapping from paths to values")
            kept = {p: v for p, v in flatten(own) if p != below and not p.startswith(below + ".")}
            return {**known, name: {**kept, below: value}}
    raise StudyError(f"the study has no such arm; its arms are {', '.join(map(str, known)) or 'none'}")


def with_overrides(tree: Mapping[str, Any], overrides: Iterable[Override], seeds: Any) -> dict[str, Any]:
    """Return the tree with overrides and, if given, another number or list of seeds."""
    changed = apply_overrides(tree, overrides)
    if isinstance(seeds, Mapping):
        changed["seeds"] = _extend(changed.get("seeds"), seeds)
    elif seeds is not None:
        changed["seeds"] = list(seeds) if isinstance(seeds, tuple | range) else seeds
    return changed


def _extend(seeds: Any, until: Mapping[str, Any]) -> dict[str, Any]:
    """Seeds until the claims are settled, beginning with those of the study."""
    if isinstance(seeds, list):
        raise StudyError("the study lists its seeds; until settled, they are numbered 0, 1, 2, …", where="seeds")
    own = seeds if isinstance(seeds, Mapping) else {} if seeds is None else {"from": seeds}
    merged = {**own, **until}
    first = merged.get("from", 0)
    if "from" not in until and isinstance(first, int) and isinstance(merged.get("to"), int):
        merged["to"] = max(first, merged["to"])
    return merged


def check_quick(tree: Mapping[str, Any], source: Source) -> None:
    """Raise a `StudyError` if the study's reduced form cannot be run."""
    resolve(quick_form(tree, source), source.with_quick(tree.get("quick")))


def quick_form(tree: Mapping[str, Any], source: Source) -> dict[str, Any]:
    """Return the tree with its `quick` overrides applied."""
    quick = tree.get("quick")
    if not isinstance(quick, Mapping) or not quick:
        raise source.place(StudyError("this study has no reduced budget (a section `quick:` with overrides)"))
    result = dict(tree)
    changes = list(flatten(quick))
    if "tune" in result and not any(path.split(".")[0] == "tune" for path, _ in changes):
        result["tune"] = reduce_tune(result["tune"])
    for path, value in changes:
        try:
            result = _override(result, path, value)
        except StudyError as error:
            raise source.place(StudyError(error.problems[0].message, where=("quick", path))) from None
    return result


def resolve(
    tree: Mapping[str, Any], source: Source | str, *, quick: bool = False, catalog: Catalog | None = None
) -> Resolved:
    """Resolve a raw tree to a study with its parts loaded and every group checked; `quick` only marks it as reduced.

    If a `catalog` is given, the part files that the study names are not loaded.
    """
    written = Source(source, tree) if isinstance(source, str) else source
    try:
        return _resolve(tree, written, quick, catalog)
    except InvalidInput as error:
        raise written.place(error) from None
    except RecursionError:
        raise StudyError(f"{written.name}: nested too deeply") from None


def _resolve(tree: Mapping[str, Any], source: Source, quick: bool, catalog: Catalog | None) -> Resolved:
    try:
        study = Study.model_validate(tree)
    except ValidationError as error:
        raise study_error(error, tree) from None
    if catalog is None:
        catalog = _load_parts(study.parts) if study.parts else BUILT_IN
    return Resolved(study, expand(study, catalog), catalog, quick, source)


def _load_parts(paths: tuple[str, ...]) -> Catalog:
    try:
        return Catalog.with_files(paths)
    except PartError as error:
        raise error.below("parts") from None


def to_yaml(study: Study) -> str:
    """Return the study as YAML, with the fields that it sets."""
    return yaml_text.dump(study.model_dump(mode="json", exclude_unset=True, exclude_none=True))
