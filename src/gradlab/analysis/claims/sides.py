"""The sides that a claim is about, and one side against another."""

from __future__ import annotations

from collections.abc import Sequence

from gradlab.analysis.claims.reading import Reading, read_two
from gradlab.analysis.claims.values import Side, is_measured, sample_of_side
from gradlab.analysis.measured import Measured
from gradlab.analysis.rules import Paired, two_arms
from gradlab.spec.claims import Claim
from gradlab.spec.place import At, describe_layer


def instances(measured: Measured, claim: Claim, rows: Sequence[Sequence[str]]) -> list[list[Side]]:
    """The sides of every instance of a claim: of each row of groups (or all of them pooled), of each layer."""
    if claim.pooled and len(rows) > 1:
        names = claim.selectors or ("all groups",)
        pools = [tuple(dict.fromkeys(column)) for column in zip(*rows, strict=True)]
        named = [(pool, names[index] if index < len(names) else "") for index, pool in enumerate(pools)]
        rows_of_pools = [[(pool, f"mean of {name}") for pool, name in named]]
    else:
        said = name_groups(measured, [group for row in rows for group in row])
        rows_of_pools = [[((group,), said[group]) for group in row] for row in rows]
    found = []
    for row in rows_of_pools:
        for places in _places(measured, claim, row[0][0][0]):
            if len(places) == 2 and len(row) == 2:
                found.append([Side(pool, places[0], places[1], name) for pool, name in row])
            else:
                found.append([Side(pool, at, None, name) for pool, name in row for at in places])
    return found


def name_groups(measured: Measured, groups: Sequence[str]) -> dict[str, str]:
    """What people call these groups, without what all of them share: the claim says that."""
    settings = [measured.entries[name].group.settings for name in groups]
    shared = [path for path in measured.names.axes if len({str(own.get(path)) for own in settings}) == 1]
    return {name: measured.names.group(name, without=shared) or measured.names.group(name) for name in groups}


def _places(measured: Measured, claim: Claim, group: str) -> list[tuple[At, ...]]:
    if claim.at.layer != "all":
        return [claim.at.places()]
    return [(place,) for place in measured.places(claim.at, group)]


def against(
    measured: Measured, claim: Claim, first: Side, second: Side, *, logs: bool | None = None
) -> tuple[Paired, Reading] | None:
    """The rule for first against second, and what was read."""
    metric = measured.metric(str(claim.metric))
    samples = [sample_of_side(measured, metric.name, side) for side in (first, second)]
    if not all(map(is_measured, samples)):
        return None
    ratios = True if first.over is not None else logs
    rule = two_arms(metric, *samples, logs=ratios, resolution=measured.resolution(metric.name))
    if rule is None:
        return None
    names = (first.label, second.label)
    if first.groups == second.groups:
        names = (describe_layer(first.at.layer), describe_layer(second.at.layer))
    return rule, read_two(f" {'/' if rule.logs else '−'} ".join(names), rule, *samples)
