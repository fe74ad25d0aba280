"""The values at which each arm of a tuned study is tried: a grid, or random points from the study's own seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import exp, log, prod
from typing import Any

from gradlab.errors import StudyError, nearest, shortened
from gradlab.spec.axes import DIGITS
from gradlab.spec.canonical import content_id
from gradlab.spec.expand import own_paths
from gradlab.spec.files import Resolved
from gradlab.spec.paths import label, value_at
from gradlab.spec.study import Study
from gradlab.spec.tuning import Interval
from gradlab.streams import Streams

MOST_CANDIDATES = 100_000


@dataclass(frozen=True)
class Candidate:
    """Values at which one arm is tried."""

    arm: str
    values: Mapping[str, Any]
    """Path -> value."""

    @property
    def name(self) -> str:
        """Name of its group in the tuning plan."""
        return f"{self.arm}, {self.words}"

    @property
    def settings(self) -> tuple[str, ...]:
        """`lr=0.001`, `batch=64`."""
        return tuple(f"{path.split('.')[-1]}={label(value)}" for path, value in self.values.items())

    @property
    def words(self) -> str:
        """The same in one line."""
        return ", ".join(self.settings)


def list_candidates(resolved: Resolved) -> tuple[Candidate, ...]:
    """The values that every arm is tried at. An arm that sets a tuned path itself keeps its own value there."""
    study, tune = resolved.study, resolved.study.tune
    assert tune is not None
    names = [group.name for group in resolved.groups]
    for arm in tune.arms:
        if arm not in names:
            raise StudyError(f"tune.arms: {shortened(arm)} is not a group of this study{nearest(arm, names)}")
    own = own_paths(study)
    found: list[Candidate] = []
    for group in resolved.groups:
        tree = group.config.model_dump(mode="json")
        values: dict[str, Any] = {}
        for path, given in tune.values_of(group.name).items():
            fixed = study.arms is not None and path in own[group.name]
            values[path] = (value_at(tree, path),) if fixed else given
        points = _draw(study, values, tune.search.random) if not isinstance(tune.search, str) else _grid(values)
        found += [Candidate(group.name, point) for point in points]
        if len(found) > MOST_CANDIDATES:
            raise StudyError(f"tune: more than {MOST_CANDIDATES:,} combinations of arms and values")
    return tuple(found)


def _grid(values: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    if prod(len(each) for each in values.values()) > MOST_CANDIDATES:
        raise StudyError(f"tune: the grid has more than {MOST_CANDIDATES:,} points; use search: {{random: 40}}")
    points = [dict(zip(values, point, strict=True)) for point in product(*values.values())]
    return _distinct(points)


def _draw(study: Study, values: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
    """Random points from the study's own seed: the same for all arms, and a longer search begins with a shorter one."""
    streams = Streams(study.seed, None)
    points = []
    for number in range(count):
        draws = streams.uniform("tuning", (len(values),), number)
        points.append({path: _drawn(own, float(u)) for (path, own), u in zip(values.items(), draws, strict=True)})
    return _distinct(points)


def _drawn(values: Any, u: float) -> Any:
    """A value at the quantile `u`, rounded as the points of a range are."""
    if not isinstance(values, Interval):
        return values[int(u * len(values))]
    low, high = values.ends
    value = exp(log(low) + u * (log(high) - log(low))) if values.log is not None else low + u * (high - low)
    if all(isinstance(end, int) for end in values.ends):
        return round(value)
    return float(f"{value:.{DIGITS}g}")


def _distinct(points: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return list({content_id(point): point for point in points}.values())
