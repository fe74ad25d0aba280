"""Select the groups that a claim is about: by name, by settings, by position on the axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from gradlab.errors import StudyError, Where, nearest, shortened
from gradlab.spec.claims import ALONG_AN_AXIS, BEST, Claim
from gradlab.spec.config import Group
from gradlab.spec.paths import label, naming_key
from gradlab.words import join


def axes_of(groups: Sequence[Group]) -> dict[str, tuple[Any, ...]]:
    """Return the paths in which groups differ, each with its values in order of first occurrence."""
    levels: dict[str, list[Any]] = {}
    for group in groups:
        for path, value in group.settings.items():
            values = levels.setdefault(path, [])
            if value not in values:
                values.append(value)
    return {path: tuple(values) for path, values in levels.items() if len(values) > 1}


def chosen(claim: Claim, groups: Sequence[Group]) -> tuple[tuple[str, ...], ...]:
    """Return the groups that the claim compares, in its order: one tuple for each instance of the claim.

    An instance has one group (compared with a value), two (compared with each other) or a whole row (an order).
    """
    axes = axes_of(groups)
    there = [group for group in groups if _is_at(group, claim.at.axes, axes)]
    if not there:
        raise StudyError(f"no group has {label(claim.at.axes)}", where="at")
    if claim.effects is not None:
        for axis in claim.effects:
            _require_path(axis, axes, ("effects",))
        return (tuple(group.name for group in there),)
    if claim.op in BEST:
        return tuple((*claimed, *others) for claimed, others in list_contenders(claim, groups))
    picked = [_select(selector, there, axes) for selector in claim.selectors]
    if claim.op in ALONG_AN_AXIS:
        return tuple(_rows_along(claim, picked[0] if picked else there, axes))
    if len(picked) < 2:
        return tuple((group.name,) for group in (picked[0] if picked else there))
    return _pair_groups(claim, picked)


def list_contenders(claim: Claim, groups: Sequence[Group]) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]:
    """Return the groups of which one is claimed to be the highest (lowest), and those it has to beat, per instance."""
    axes = axes_of(groups)
    there = [group for group in groups if _is_at(group, claim.at.axes, axes)]
    claimed = {group.name for selector in claim.selectors for group in _select(selector, there, axes)}
    rows = [tuple(group.name for group in there)] if claim.along is None else _rows_along(claim, there, axes)
    instances = [
        (tuple(name for name in row if name in claimed), tuple(name for name in row if name not in claimed))
        for row in rows
    ]
    instances = [(claimed_row, others) for claimed_row, others in instances if claimed_row]
    if not all(others for _, others in instances):
        raise StudyError("there is no other group to compare with; name fewer arms", where="arms")
    return tuple(instances)


def path_of(axis: str, axes: Mapping[str, Any]) -> str | None:
    """Return the full path of an axis given by its path or its last word; None if it is unknown or ambiguous."""
    fitting = [path for path in axes if axis in (path, path.split(".")[-1])]
    return fitting[0] if len(fitting) == 1 else None


def _require_path(axis: str, axes: Mapping[str, Any], where: Where, also: tuple[str, ...] = ()) -> str:
    """The full path of an axis; a `StudyError` lists the axes, and what else a claim may name there."""
    path = path_of(axis, axes)
    if path is None:
        words = [known.split(".")[-1] for known in axes]
        others = f", and a claim may also name {join(also)}" if also else ""
        raise StudyError(
            f"{shortened(axis)} is not an axis of this study; it has {', '.join(words) or 'none'}{others}"
            f"{nearest(axis, [*words, *also])}",
            where=where,
        )
    return path


def _is_at(group: Group, at: Mapping[str, Any], axes: Mapping[str, Any]) -> bool:
    for axis, wanted in at.items():
        path = _require_path(axis, axes, ("at", axis), also=("step", "layer"))
        values = wanted if isinstance(wanted, list | tuple) else [wanted]
        for value in values:
            if not any(matches(level, value) for level in axes[path]):
                raise StudyError(
                    f"{shortened(value)} is not on the axis; it has {_format_values(axes[path])}", where=("at", axis)
                )
        if not any(matches(group.settings[path], value) for value in values):
            return False
    return True


def matches(level: Any, wanted: Any) -> bool:
    """Whether `wanted` denotes the value: by itself, by its label, or by its part's name."""
    if isinstance(level, bool) or isinstance(wanted, bool):
        return str(level).lower() == str(wanted).lower()
    key = naming_key(level)
    named = None if key is None else level[key]
    if isinstance(level, int | float) and isinstance(wanted, str):
        with suppress(ValueError):
            return float(level) == float(wanted)
    return level == wanted or str(wanted) in (label(level), named)


def _select(selector: str, groups: Sequence[Group], axes: Mapping[str, Any]) -> list[Group]:
    by_name = [group for group in groups if group.name == selector]
    if by_name:
        return by_name
    of_arm = [group for group in groups if group.arm and (selector + ", ").startswith(group.arm + ", ")]
    if of_arm:
        rest = selector[len(of_arm[0].arm) + 2 :]
        return _select(rest, of_arm, axes) if rest else of_arm
    wanted = [part.partition("=") for part in selector.split(", ")]
    if all(equals and path_of(key, axes) for key, equals, _ in wanted):
        levels = [(_require_path(axis, axes, ("arms",)), level) for axis, _, level in wanted]
        fitting = [group for group in groups if all(matches(group.settings[path], level) for path, level in levels)]
        if fitting:
            return fitting
    names = [group.name for group in groups]
    raise StudyError(f"{shortened(selector)} is not a group of this study{nearest(selector, names)}", where="arms")


def _pair_groups(claim: Claim, picked: Sequence[Sequence[Group]]) -> tuple[tuple[str, ...], ...]:
    """Pair the arms' groups: one by one, or by all settings that the arms do not name."""
    if all(len(groups) == 1 for groups in picked):
        return (tuple(groups[0].name for groups in picked),)
    named = {part.partition("=")[0] for selector in claim.selectors for part in selector.split(", ")}
    tables = [{_place(group, named): group.name for group in groups} for groups in picked]
    if any(len(table) < len(groups) for table, groups in zip(tables, picked, strict=True)):
        raise StudyError(
            "several groups match an arm, and it is ambiguous how to pair them; narrow them by `at`", where="arms"
        )
    shared = [key for key in tables[0] if all(key in table for table in tables[1:])]
    if not shared:
        raise StudyError("the groups of the arms have no common settings to pair them by", where="arms")
    return tuple(tuple(table[key] for table in tables) for key in shared)


def _other_settings(group: Group, named: set[str]) -> tuple[tuple[str, str], ...]:
    return tuple((path, label(v)) for path, v in group.settings.items() if not {path, path.split(".")[-1]} & named)


def _place(group: Group, named: set[str]) -> tuple[tuple[str, str], ...]:
    """The settings by which the groups of two arms are paired: all, or those of the axes beside the arms."""
    others = _other_settings(group, named)
    return tuple(item for item in others if item[0] in group.point) if group.arm else others


def _rows_along(claim: Claim, groups: Sequence[Group], axes: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Return the groups along the claim's axis, one row for each combination of the other settings."""
    path = _require_path(str(claim.along), axes, ("along",))
    rows: dict[Any, list[Group]] = {}
    for group in groups:
        rows.setdefault(_other_settings(group, {path}), []).append(group)
    order = list(axes[path])
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in order):
        order.sort()
    ordered = [sorted(row, key=lambda group: order.index(group.settings[path])) for row in rows.values()]
    least, count = (3, "three") if claim.op == "diminishing" else (2, "two")
    if any(len(row) < least for row in ordered):
        raise StudyError(f"fewer than {count} groups are along {path}", where="along")
    return [tuple(group.name for group in row) for row in ordered]


def _format_values(values: Sequence[Any]) -> str:
    return ", ".join(map(label, values[:12])) + (" …" if len(values) > 12 else "")
