"""Runs of somebody's own code in the lab's folders: what was kept, the names of its layers, the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import indent
from typing import Any

from gradlab.analysis.measured import Measured
from gradlab.audits.verdict import Audit
from gradlab.execute.base import TrialResult
from gradlab.handwritten.returned import Layered, outcome_of
from gradlab.handwritten.source import code_of, numerics
from gradlab.lab import names_by_group
from gradlab.notices import say
from gradlab.plan.code import CodePlan, code_plan
from gradlab.result import Result
from gradlab.spec.code import CodeStudy
from gradlab.store.environment import environment
from gradlab.store.folder import AUDIT, ENVIRONMENT, LAYER_NAMES, RunFolder
from gradlab.store.records import Records
from gradlab.store.sealed import DamagedFile, read_sealed
from gradlab.trial.digest import digest

Names = Mapping[str, Sequence[str]]
"""Arm -> the modules that are its layers 1, 2, …"""


def keep(
    folder: RunFolder,
    plan: CodePlan,
    records: Records,
    call: str,
    names: Names,
    audit: Audit | None = None,
    *,
    stopped: bool = False,
    figures: bool = True,
) -> Result:
    """The result of what is in a run's folder, with its report written there."""
    ids = {arm.group.name: arm.id for arm in plan.groups}
    known = {**_names_before(folder), **{ids[arm]: list(own) for arm, own in names.items()}}
    if known:
        folder.write_sealed(LAYER_NAMES, known)
    begun = read_sealed(folder.path / ENVIRONMENT) or environment()
    measured, notes = Measured(plan, records), tuple(folder.notes)
    shown = names_by_group(plan, known)
    result = Result(measured, begun, call, folder.path, audit, stopped, notes, layer_names=shown)
    result.write(folder, figures=figures)
    return result


def _names_before(folder: RunFolder) -> dict[str, Any]:
    """The names of layers that are already known; a damaged file is written anew."""
    try:
        return read_sealed(folder.path / LAYER_NAMES) or {}
    except DamagedFile as error:
        folder.notes.append(f"{error}; it is written anew")
        (folder.path / LAYER_NAMES).unlink(missing_ok=True)
        return {}


def kept_audit(path: Path, plan: CodePlan) -> Audit | None:
    """The audit of an earlier call, if it was of these arms; one of others, or a damaged one, is no audit of them."""
    try:
        tree = read_sealed(path / AUDIT)
        audit = None if tree is None else Audit.from_json(tree)
    except (DamagedFile, KeyError, TypeError, ValueError):
        say(f"{path / AUDIT} is damaged and is removed; audit the arms again to know whether they are fair")
        audit = None
    if audit is not None and set(audit.arms) == set(plan.study.arms):
        return audit
    (path / AUDIT).unlink(missing_ok=True)
    return None


def keep_one(
    out: str | Path,
    of: Any,
    settings: Mapping[str, Any],
    seen: Layered,
    *,
    question: str,
    remarks: Sequence[str],
    files: Mapping[str, bytes],
    figures: bool = True,
) -> Result:
    """One training that somebody else has run, as a run with one arm; one that is already there is moved aside."""
    code = code_of(type(of))
    code = code.model_copy(
        update={"text": f"{code.text}\n# {type(of).__name__}, as it was watched\n{indent(repr(of), '# ')}\n"}
    )
    arm = code.function
    study = CodeStudy(
        name="watched",
        question=question,
        arms={arm: dict(settings)},
        seeds=(0,),
        headline={"metric": "grad_l2", "at": {"layer": 1, "step": "end"}},
        remarks=tuple(remarks),
        watched=True,
        code=code,
    )
    plan = code_plan(study, numerics())
    (trial,) = plan.trials
    outcome = outcome_of({"layers": seen})
    result = TrialResult(trial, outcome, None, 0.0, digest(trial.id, outcome, None))
    with RunFolder.start(
        Path(out), plan, environment(), call := "gradlab.watch(model, optimizer)", force=True
    ) as folder:
        folder.commit([result])
        for name, content in files.items():
            folder.write_file(name, content)
        return keep(folder, plan, folder.records(), call, {arm: seen.layer_names}, figures=figures)
