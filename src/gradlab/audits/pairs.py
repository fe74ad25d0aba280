"""Which groups are compared, and what each would be with the other's factor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from pydantic import ValidationError

from gradlab.parts import Catalog
from gradlab.spec.base import Frozen, canonical_json, scale_value
from gradlab.spec.choice import Choice
from gradlab.spec.config import Config, Group
from gradlab.spec.paths import ALTERNATIVES, value_at
from gradlab.spec.study import Study

_MISSING = object()


@dataclass(frozen=True)
class Pair:
    """Two groups of one class: equal, the study says, but for the factor."""

    a: Group
    b: Group

    @property
    def names(self) -> tuple[str, str]:
        """Of the first and of the second."""
        return self.a.name, self.b.name


def factor_of(study: Study) -> tuple[str, ...]:
    """The declared factor; a study of axes that names none declares its axes."""
    return study.factor or (*(study.axes or {}), *(study.zip or {}))


def pairs_of(study: Study, groups: Sequence[Group]) -> tuple[Pair, ...]:
    """Pair every group with the first of its class: the groups that are equal on every undeclared axis."""
    factor = factor_of(study)
    undeclared = [*(study.axes or {}), *(study.zip or {})]
    undeclared = [path for path in undeclared if not any(overlap(f, path) for f in factor)]
    classes: dict[str, list[Group]] = {}
    for group in groups:
        key = canonical_json({path: group.settings.get(path) for path in undeclared})
        classes.setdefault(key, []).append(group)
    return tuple(Pair(first, other) for first, *others in classes.values() for other in others)


def classes_of(pairs: Sequence[Pair]) -> list[list[Group]]:
    """The groups of each class, the first in front."""
    found: dict[str, list[Group]] = {}
    for pair in pairs:
        found.setdefault(pair.a.name, [pair.a]).append(pair.b)
    return list(found.values())


def with_factor_of(config: Config, other: Config, factor: Sequence[str], catalog: Catalog) -> Config | None:
    """A configuration with another's values at the paths of the factor; None if they do not fit together."""
    tree, source = config.model_dump(mode="json"), other.model_dump(mode="json")
    others = [f"model.{ALTERNATIVES[path]}" for path in factor if path in ALTERNATIVES]  # blocks with depth
    for path in dict.fromkeys((*factor, *others)):
        _put(tree, path, value_at(source, path, _MISSING))
    try:
        return Config.model_validate(tree, context={"catalog": catalog})
    except ValidationError:
        return None


def differing(a: Config, b: Config, factor: Sequence[str]) -> list[str]:
    """The paths of the factor in which two configurations differ."""
    first, second = a.model_dump(mode="json"), b.model_dump(mode="json")
    return [path for path in factor if value_at(first, path, _MISSING) != value_at(second, path, _MISSING)]


def overlap(a: str, b: str) -> bool:
    """Whether one path is the other, or lies below it."""
    return a == b or a.startswith(b + ".") or b.startswith(a + ".")


def _put(tree: dict[str, Any], path: str, value: Any) -> None:
    *above, last = path.split(".")
    place = tree
    for key in above:
        here = place.get(key)
        if not isinstance(here, dict):
            if value is _MISSING:
                return
            place[key] = {Choice.key: here} if isinstance(here, str) else {}  # a short form, an absent section
        place = place[key]
    if value is _MISSING:
        place.pop(last, None)
    else:
        place[last] = value


# The single settings in which groups differ: a declared factor such as `model` may cover several at once.
#
# A setting is a leaf of the configuration: `train.lr`, `model.init.bias`. The name of a part is one setting
# (`model.init.kind`). A parameter belongs to its part (`train.schedule.gamma of step`): two different parts are one
# difference, whatever parameters they have. A scale that follows from the depth (`1/sqrt(depth)`, `1/depth`) is a
# setting with the value it has at the group's depth.

TIED = ("1/sqrt(depth)", "1/depth")
"""Scales that follow from the depth."""
OF = " of "
SHARED = ("weight_decay",)
"""Parameters that mean the same in every part of their kind, so that they may differ beside it."""
BUDGET = ("train.steps", "train.epochs")
MOST_GROUPS = 200
"""Larger classes of groups are compared through the groups that differ from the first in few settings."""

ABSENT = ""
"""The value of a parameter that a part does not have."""
Settings = Mapping[str, str]


@dataclass(frozen=True)
class Bundle:
    """Settings that change together: no two groups differ in one of them alone."""

    a: Group
    b: Group
    settings: tuple[str, ...]


def read_settings(config: Config) -> dict[str, Any]:
    """Every setting of a configuration by its path."""
    found: dict[str, Any] = {}
    for path, value in _all_leaves(config):
        found[path] = scale_value(value, config.model.depth) if value in TIED else value
    return found


def find_tied(config: Config) -> dict[str, str]:
    """Paths whose value is an expression in the depth, with the expression."""
    return {path: str(value) for path, value in _all_leaves(config) if value in TIED}


def _all_leaves(config: Config) -> Iterator[tuple[str, Any]]:
    for section in ("data", "model", "train"):
        yield from _leaves(getattr(config, section), section)


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Choice):
        for name in type(value).model_fields:
            own = getattr(value, name)
            yield from _leaves(own, f"{path}.{name}") if isinstance(own, Frozen) else [(f"{path}.{name}", own)]
        for name, item in value.parameters.items():
            yield f"{path}.{name}" if name in SHARED else f"{path}.{name}{OF}{value.name}", item
    elif isinstance(value, Frozen):
        if "." in path:  # an optional section: None where it is not given
            yield path, True
        for name in type(value).model_fields:
            if name not in value.derived:
                yield from _leaves(getattr(value, name), f"{path}.{name}")
    else:
        yield path, value


def find_varied(classes: Sequence[Sequence[Group]], factor: Sequence[str]) -> tuple[str, ...]:
    """The settings below the factor in which groups of one class differ, in the order of the configuration."""
    found: dict[str, None] = {}
    for groups in classes:
        own = [_declared(group.config, factor) for group in groups]
        for path in dict.fromkeys(path for settings in own for path in settings):
            if len({_key(settings[path]) for settings in own if path in settings}) > 1:
                found[path] = None
    return _one_budget(found)


def find_bundles(classes: Sequence[Sequence[Group]], factor: Sequence[str]) -> list[Bundle]:
    """For every setting that never changes alone, the smallest set of settings that it changes with."""
    alone: set[str] = set()
    smallest: dict[str, Bundle] = {}
    for groups in classes:
        varied = find_varied([groups], factor)
        settings = {group.name: _declared(group.config, factor) for group in groups}
        rows = [
            (group, {p: _key(settings[group.name][p]) if p in settings[group.name] else ABSENT for p in varied})
            for group in groups
        ]
        for (a, first), (b, second) in combinations(_thinned(rows), 2):
            apart = _one_budget(p for p in varied if first[p] != second[p] and ABSENT not in (first[p], second[p]))
            if len(apart) == 1:
                alone.add(apart[0])
            for path in apart if len(apart) > 1 else ():
                if path not in smallest or len(apart) < len(smallest[path].settings):
                    smallest[path] = Bundle(a, b, apart)
    found = {bundle.settings: bundle for path, bundle in smallest.items() if path not in alone}
    return list(found.values())


def name_settings(paths: Sequence[str], config: Config) -> tuple[str, ...]:
    """The paths as a reader knows them: `model.skip` for its kind alone; a value that is tied to the depth says so."""
    tied = find_tied(config)
    found = (f"{plain_path(p)} ({tied[p]})" if p in tied else _shorten(plain_path(p), paths) for p in paths)
    return tuple(dict.fromkeys(found))


def plain_path(setting: str) -> str:
    """The path of a setting, without the part that it belongs to."""
    return setting.partition(OF)[0]


def _shorten(path: str, paths: Sequence[str]) -> str:
    choice = path.removesuffix(".kind")
    return path if any(other != path and other.startswith(choice + ".") for other in paths) else choice


def _declared(config: Config, factor: Sequence[str]) -> dict[str, Any]:
    """The settings that the factor covers, and those that follow from a declared depth."""
    covered = read_settings(config)
    deep = ("model.depth", "model.blocks", "model.widths")
    tied = find_tied(config) if any(overlap(size, path) for path in factor for size in deep) else {}
    return {path: value for path, value in covered.items() if path in tied or any(_covers(f, path) for f in factor)}


def _covers(factor: str, path: str) -> bool:
    """Whether a factor names this setting, or something above it (a choice is its name)."""
    return plain_path(path) == factor or path.startswith(factor + ".")


def _thinned(rows: Sequence[tuple[Group, Settings]]) -> Sequence[tuple[Group, Settings]]:
    """All groups, or of many the ones that are closest to the first."""
    if len(rows) <= MOST_GROUPS:
        return rows
    _, first = rows[0]
    return sorted(rows, key=lambda row: sum(row[1][path] != first[path] for path in first))[:MOST_GROUPS]


def _one_budget(paths: Iterable[str]) -> tuple[str, ...]:
    """Steps instead of epochs are one change, not two."""
    found = tuple(paths)
    return tuple(path for path in found if path != "train.epochs") if set(BUDGET) <= set(found) else found


def _key(value: Any) -> str:
    return repr(float(value) if type(value) is int else value)
