"""Claims that one axis moves a metric more than another: their variance components, compared over seeds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradlab.analysis.claims.reading import NEVER, Reading, Test
from gradlab.analysis.effects import level_means
from gradlab.analysis.measured import Measured
from gradlab.analysis.rules.component import Component, pseudo_values
from gradlab.spec.claims import Claim
from gradlab.spec.selection import path_of


def effects_test(measured: Measured, claim: Claim, groups: Sequence[str]) -> Test | None:
    """The difference of two unbiased variances between levels; a cell without a number leaves it unsettled."""
    assert claim.effects is not None
    paths = [path for axis in claim.effects if (path := path_of(axis, measured.plan.groups[0].group.settings))]
    tables = [level_means(measured, str(claim.metric), groups, path) for path in paths]
    seeds = sorted(set(tables[0]) & set(tables[1]))
    if not seeds:
        return None
    first, second = (pseudo_values(np.array([table[seed] for seed in seeds])) for table in tables)
    planned = len(measured.planned_seeds[groups[0]])
    unknown = planned - len(seeds)
    names = [f"variance between levels of {axis}" for axis in claim.effects]
    whole = Component(tuple((first - second).tolist()))
    readings = (
        Reading(names[0], Component(tuple(first.tolist())).estimate, unknown=unknown),
        Reading(names[1], Component(tuple(second.tolist())).estimate, unknown=unknown),
        Reading(f"{claim.effects[0]} − {claim.effects[1]}", whole.estimate, unknown=unknown),
    )
    cells = f"{unknown} of {planned} seeds have a cell without a number" if unknown else ""
    holds, fails = (NEVER, NEVER) if unknown else (whole.p_above(0), whole.p_below(0))
    return Test(
        holds, NEVER, fails, whole.stated, whole.assumes, readings, lambda level: whole.seeds_for(0, level), cells
    )
