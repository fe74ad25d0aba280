"""Which groups are compared, and what each would be with the other's factor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from gradlab.parts import Catalog
from gradlab.spec.canonical import canonical_json
from gradlab.spec.config import Config
from gradlab.spec.expand import Group
from gradlab.spec.paths import ALTERNATIVES, value_at
from gradlab.spec.study import Study

ABSENT = object()


@dataclass(frozen=True)
class Pair:
    """Two groups of one class: equal, the study says, but for the factor."""

    a: Group
    b: Group


def factor_of(study: Study) -> tuple[str, ...]:
    """The declared factor; a study of axes that names none declares its axes."""
    return study.factor or (*(study.axes or {}), *(study.zip or {}))


def pairs_of(study: Study, groups: Sequence[Group]) -> tuple[Pair, ...]:
    """Pair every group with the first of its class: the groups that are equal on every undeclared axis."""
    factor = factor_of(study)
    undeclared = [] if study.arms is not None else [*(study.axes or {}), *(study.zip or {})]
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
        _put(tree, path, value_at(source, path, ABSENT))
    try:
        return Config.model_validate(tree, context={"catalog": catalog})
    except ValidationError:
        return None


def differing(a: Config, b: Config, factor: Sequence[str]) -> list[str]:
    """The paths of the factor in which two configurations differ."""
    first, second = a.model_dump(mode="json"), b.model_dump(mode="json")
    return [path for path in factor if value_at(first, path, ABSENT) != value_at(second, path, ABSENT)]


def overlap(a: str, b: str) -> bool:
    """Whether one path is the other, or lies below it."""
    return a == b or a.startswith(b + ".") or b.startswith(a + ".")


def _put(tree: dict[str, Any], path: str, value: Any) -> None:
    *above, last = path.split(".")
    place = tree
    for key in above:
        if not isinstance(place.get(key), dict):
            return
        place = place[key]
    if value is ABSENT:
        place.pop(last, None)
    else:
        place[last] = value
