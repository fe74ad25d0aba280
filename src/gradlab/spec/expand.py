"""Expand a study to groups: resolve each arm, or each point of the grid, to a whole configuration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

from pydantic import ValidationError

from gradlab.errors import InvalidInput, Problem, StudyError, Where, nearest, offer, shortened
from gradlab.parts import Catalog
from gradlab.spec.config import BASE_SECTIONS, Config, Group
from gradlab.spec.messages import study_error
from gradlab.spec.naming import check_labels
from gradlab.spec.paths import ALTERNATIVES, flatten, label, value_at, with_all
from gradlab.spec.study import Study

MAX_GROUPS = 100_000


def expand(study: Study, catalog: Catalog) -> tuple[Group, ...]:
    """Return every group of the study; a `StudyError` says where in the file a group is invalid."""
    if study.code is not None:
        return tuple(Group(name, dict(settings)) for name, settings in (study.arms or {}).items())
    if catalog.executed:
        _check_names(study, catalog)
    variants = _variants(study)
    varied = sorted({path for _, overrides, _ in variants for path, _ in flatten(overrides)})
    groups = []
    for name, overrides, written in variants:
        config = _resolve(study, overrides, written, catalog)
        tree = config.model_dump(mode="json")
        both = study.arms is not None and len(variants) > len(study.arms or ())
        arm = str(written[1]) if both else ""
        point = (*(study.axes or {}), *(study.zip or {})) if both else ()
        groups.append(Group(name, {path: value_at(tree, path) for path in varied}, config, arm, point))
    for name, count in Counter(group.name for group in groups).items():
        if count > 1:
            raise StudyError(f"two points are called {name!r}; a value is listed twice", where="axes")
    check_labels(study.labels, groups, catalog)
    absent = object()
    for path in study.factor:
        known = path in varied or path in ALTERNATIVES
        if not known and value_at(groups[0].config.model_dump(mode="json"), path, absent) is absent:
            raise StudyError(f"{path!r} is not a path of this study{nearest(path, varied)}", where="factor")
    return tuple(groups)


def resolve_groups(
    study: Study, catalog: Catalog, values: Sequence[tuple[str, Mapping[str, Any]]], *, written: str
) -> list[Config]:
    """The configurations of groups, given by name, with further values by path; `written` is where those stand."""
    variants = {name: overrides for name, overrides, _ in _variants(study)}
    return [
        _resolve(study, {**dict(flatten(variants[name])), **further}, (written,), catalog) for name, further in values
    ]


def own_paths(study: Study) -> dict[str, tuple[str, ...]]:
    """Group -> the paths that it sets itself."""
    return {name: tuple(path for path, _ in flatten(overrides)) for name, overrides, _ in _variants(study)}


def to_full_tree(groups: Sequence[Group]) -> dict[str, Any]:
    """Return every field with its default: the values that all groups share, and each group's own values by path."""
    leaves = [dict(_leaves(group.config.model_dump(mode="json"))) for group in groups]
    first = leaves[0]
    shared = [path for path in first if all(path in others and others[path] == first[path] for others in leaves[1:])]
    tree: dict[str, Any] = {}
    for path in shared:
        *above, last = path.split(".")
        place = tree
        for key in above:
            place = place.setdefault(key, {})
        place[last] = first[path]
    common = set(shared)
    differing = [{path: value for path, value in leaf.items() if path not in common} for leaf in leaves]
    return {"shared": tree, "groups": {group.name: values for group, values in zip(groups, differing, strict=True)}}


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _variants(study: Study) -> list[tuple[str, Mapping[str, Any], Where]]:
    """Return (name, overrides, path in the study) of each group."""
    if study.axes is None and study.zip is None:
        if study.arms is not None:
            return [(name, overrides, ("arms", name)) for name, overrides in study.arms.items()]
        return [("all", {}, ("base",))]
    together = study.zip or {}
    rows = [dict(zip(together, values, strict=True)) for values in zip(*together.values(), strict=True)] or [{}]
    axes = study.axes or {}
    if len(rows) * prod(len(values) for values in axes.values()) > MAX_GROUPS:
        raise StudyError(f"the grid has more than {MAX_GROUPS:,} points", where="axes")
    points = [row | dict(zip(axes, values, strict=True)) for row in rows for values in product(*axes.values())]
    if study.arms is not None:
        return [
            (f"{name}, {_name_point(point)}", {**overrides, **point}, ("arms", name))
            for point in points
            for name, overrides in study.arms.items()
        ]
    return [(_name_point(point), point, ("axes" if axes else "zip",)) for point in points]


def _name_point(point: Mapping[str, Any]) -> str:
    return ", ".join(f"{path.split('.')[-1]}={label(value)}" for path, value in point.items())


def _resolve(study: Study, overrides: Mapping[str, Any], written: Where, catalog: Catalog) -> Config:
    for section in overrides:
        if str(section).split(".")[0] not in BASE_SECTIONS:
            raise StudyError(
                f"{shortened(section)} is not a path below base"
                f"{offer(str(section).split('.')[0], BASE_SECTIONS)}, each followed by a field",
                where=(*written, str(section)),
            )
    if "measure" in study.base:
        raise StudyError("measure belongs to the study, not to its base; move it one level up", where="base.measure")
    try:
        tree = with_all(study.base, overrides)
    except StudyError as error:
        raise error.below(*written) from None
    try:
        return Config.model_validate(tree | {"measure": study.measure}, context={"catalog": catalog})
    except ValidationError as error:
        raise place_below(study_error(error, tree), overrides, written) from None


def place_in_study(error: InvalidInput, study: Study, group: str) -> InvalidInput:
    """Return an error about a group's configuration with the paths of the study: in its arm, its axes or the base."""
    return next(
        (place_below(error, overrides, where) for name, overrides, where in _variants(study) if name == group), error
    )


def place_below(error: InvalidInput, overrides: Mapping[str, Any], written: Where) -> InvalidInput:
    """Return an error with its fields where they are written: among the overrides at `written`, or in the base."""
    changed = [path for path, _ in flatten(overrides)]

    def place(problem: Problem) -> Problem:
        path = ".".join(map(str, problem.where))
        if not path or path.partition(".")[0] not in BASE_SECTIONS:
            return problem
        here = any(path == c or path.startswith(c + ".") or c.startswith(path + ".") for c in changed)
        return Problem(problem.message, (*(written if here else ("base",)), *problem.where))

    return type(error)(problems=tuple(map(place, error.problems)))


def _check_names(study: Study, catalog: Catalog) -> None:
    """Refuse probes, scores and figures that do not exist."""
    measure = study.measure
    for kind, path, names in (
        ("probe", "measure.probes", () if measure.probes == "all" else measure.probes),
        ("score", "measure.scores", measure.scores),
        ("figure", "figures", study.figures or ()),
    ):
        known = catalog.names(kind) if names else []
        for index, name in enumerate(names):
            if name not in known:
                raise StudyError(f"{shortened(name)} is not known{offer(name, known)}", where=(path, index))
