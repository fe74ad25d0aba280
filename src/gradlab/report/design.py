"""How the study was designed, and what it takes to run it again, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gradlab.analysis.measured import Measured
from gradlab.report.tables import Table
from gradlab.spec.paths import label


@dataclass(frozen=True)
class Design:
    """In what the arms are allowed to differ, and what each of them is."""

    factor: tuple[str, ...]
    seeds: int
    sharing: str
    """What the seeds have in common across groups, in words."""
    groups: Table
    data: tuple[str, ...]
    """What was inferred from the data, in words."""


@dataclass(frozen=True)
class Rerun:
    """What makes the same results again."""

    command: str
    machine: str | None
    """Versions and processor in words; None if they were not recorded."""
    own_code: bool
    """Whether the trials are calls of user code."""
    hash: str
    """Of the results: equal hashes, equal bits."""


def describe_design(measured: Measured) -> Design:
    """The design of the study that was run."""
    plan, study = measured.plan, measured.study
    known = any(planned.cost is not None for planned in plan.groups)
    header = ("group", "settings", *(("parameters", "steps", "GFLOP per trial") if known else ()))
    rows = []
    for planned in plan.groups:
        settings = ", ".join(f"{path} = {label(value)}" for path, value in planned.group.settings.items()) or "the base"
        cost = planned.cost
        sizes = () if cost is None else (f"{cost.parameters:,}", f"{cost.steps:,}", f"{cost.flops / 1e9:,.3g}")
        rows.append((planned.group.name, settings, *sizes))
    return Design(
        study.factor,
        len(study.trial_seeds),
        "shared by all groups (common random numbers)" if known else "the same for all groups",
        Table("Design", header, tuple(rows), numbers=(2, 3, 4) if known else ()),
        tuple(dict.fromkeys(planned.stated for planned in plan.groups if planned.stated)),
    )


def describe_rerun(measured: Measured, environment: Mapping[str, Any], command: str) -> Rerun:
    """The command, the environment and the hash of the results."""
    packages = ", ".join(f"{name} {version}" for name, version in environment.get("packages", {}).items() if version)
    machine = None
    if packages:
        python, processor, system = (environment.get(key, "unknown") for key in ("python", "processor", "system"))
        machine = f"Python {python}, {packages}; {processor} ({system})."
    return Rerun(command, machine, measured.plan.own_code, measured.hash)
