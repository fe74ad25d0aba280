"""Runs of somebody's own code in the lab's folders: what was kept, the names of its layers, the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import indent
from typing import Any

from gradlab.analysis.measured import Measured
from gradlab.audits.audit import ONE_SEED, Audit
from gradlab.comparing.returned import Layered, outcome_of
from gradlab.comparing.source import code_of, numerics
from gradlab.notices import say
from gradlab.plans.code import CodePlan, code_plan
from gradlab.report.finish import Conduct, finish
from gradlab.report.result import Result
from gradlab.runs.store.environment import environment
from gradlab.runs.store.folder import RunFolder
from gradlab.runs.store.report_folder import AUDIT
from gradlab.runs.store.sealed import DamagedFile, read_sealed
from gradlab.spec.code import CodeStudy
from gradlab.trials.digest import digest
from gradlab.trials.result import TrialResult


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


def with_seeds(audit: Audit | None, plan: CodePlan) -> Audit | None:
    """The audit as a comparison of several seeds shows it: that one seed was compared is then no limit."""
    if audit is None or len(plan.study.trial_seeds) < 2:
        return audit
    return replace(audit, limits=tuple(limit for limit in audit.limits if limit != ONE_SEED))


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
    how = Conduct("gradlab.watch(model, optimizer)", Path(out), force=True, figures=figures)
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
    with RunFolder.start(Path(out), plan, environment(), how.command, force=how.force) as folder:
        folder.commit([result])
        for name, content in files.items():
            folder.write_file(name, content)
        return finish(folder, Measured(plan, folder.records()), how, names={arm: seen.layer_names})
