"""Two runs beside each other: what differs in the studies, and what differs in the results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gradlab.analysis.comparison import Comparison, compare_samples
from gradlab.analysis.estimate import Estimate
from gradlab.analysis.measured import Measured
from gradlab.plans.plan import PlannedGroup

_FIELDS = ("question", "factor", "seeds", "seed", "measure", "headline")


@dataclass(frozen=True)
class Setting:
    """One thing that the studies say differently; None where one of them does not say it."""

    where: str
    path: str
    first: Any
    second: Any


@dataclass(frozen=True)
class Row:
    """A metric of a group that both runs have; the comparison is second against first, paired over seeds."""

    group: str
    metric: str
    first: Estimate
    second: Estimate
    comparison: Comparison | None


@dataclass(frozen=True)
class Against:
    """What `gradlab report RUN --against RUN` shows."""

    settings: tuple[Setting, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    rows: tuple[Row, ...]
    same_trials: int
    """Trials with the same id: the same configuration, seed, data and numerics."""
    same_bits: int
    """Of those, the ones whose results are the same to the last bit, wall times aside."""


def against(first: Measured, second: Measured) -> Against:
    """The second run compared with the first, group by group of the same name."""
    groups = [name for name in first.group_names if name in second.group_names]
    digests = [_digests(first), _digests(second)]
    shared = digests[0].keys() & digests[1].keys()
    return Against(
        settings=tuple(_settings(first, second, groups)),
        only_first=tuple(name for name in first.group_names if name not in groups),
        only_second=tuple(name for name in second.group_names if name not in groups),
        rows=tuple(_rows(first, second, groups)),
        same_trials=len(shared),
        same_bits=sum(digests[0][trial] == digests[1][trial] for trial in shared),
    )


def _digests(measured: Measured) -> dict[str, str]:
    """Trial id -> digest of its result."""
    trials = measured.frame()
    return dict(zip(trials["trial"].to_pylist(), trials["digest"].to_pylist(), strict=True))


def _settings(first: Measured, second: Measured, groups: list[str]) -> Iterator[Setting]:
    for name in _FIELDS:
        a, b = (getattr(measured.study, name, None) for measured in (first, second))
        if a != b:
            yield from _differing("study", name, _plain(a), _plain(b))
    configs = [{planned.group.name: _said(planned) for planned in measured.plan.groups} for measured in (first, second)]
    numerics = [{p.group.name: p.numerics for p in measured.plan.groups} for measured in (first, second)]
    contents = [{p.group.name: p.content for p in measured.plan.groups} for measured in (first, second)]
    for group in groups:
        trees = [{key: value for key, value in config[group].items() if key != "measure"} for config in configs]
        found = list(_differing(group, "", *trees))
        yield from found
        if not found and contents[0][group] != contents[1][group] and first.study.seed == second.study.seed:
            yield Setting(group, "content of code, data or part files", contents[0][group], contents[1][group])
        if numerics[0][group] != numerics[1][group]:
            yield Setting(group, "numerics", numerics[0][group], numerics[1][group])


def _said(planned: PlannedGroup) -> Mapping[str, Any]:
    """All that is known of a group beforehand."""
    return planned.group.settings if planned.network is None else planned.config.model_dump(mode="json")


def _plain(value: Any) -> Any:
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else value


def _differing(where: str, path: str, a: Any, b: Any) -> Iterator[Setting]:
    """Leaves of two trees that are not equal."""
    if a == b:
        return
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        for key in dict.fromkeys([*a, *b]):
            yield from _differing(where, f"{path}.{key}" if path else str(key), a.get(key), b.get(key))
    else:
        yield Setting(where, path, a, b)


def _rows(first: Measured, second: Measured, groups: list[str]) -> Iterator[Row]:
    """Every metric that both runs have, but for the cost of a trial, which is in the settings."""
    metrics = [name for name in first.metrics if name in second.metrics and name not in ("parameters", "flops")]
    shared = first.study.seed == second.study.seed
    for group in groups:
        for metric in metrics:
            comparison = _compared(first, second, group, metric) if shared else None
            yield Row(group, metric, first.summary(metric, group), second.summary(metric, group), comparison)


def _compared(first: Measured, second: Measured, group: str, metric: str) -> Comparison | None:
    samples = [measured.sample(metric, group) for measured in (first, second)]
    resolution = max(measured.resolution(metric) for measured in (first, second))
    return compare_samples(first.metric(metric), ("first", "second"), *samples, resolution=resolution)
