"""Run folders of users' code: earlier audits, and a watched training as a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import indent
from typing import Any

from gradlab.analysis.measured import Measured
from gradlab.audits.audit import ONE_SEED, Audit
from gradlab.comparing.outcomes import LayerSource, make_outcome
from gradlab.comparing.source import hash_code, numerics
from gradlab.notices import say
from gradlab.plans.code import CodePlan, code_plan
from gradlab.report.finish import Conduct, finish
from gradlab.report.result import Result
from gradlab.runs.store.environment import environment
from gradlab.runs.store.folder import RunFolder
from gradlab.runs.store.report_folder import AUDIT
from gradlab.runs.store.sealed import DamagedFile, read_sealed
from gradlab.spec.code import Code, CodeStudy
from gradlab.trials.digest import digest
from gradlab.trials.result import TrialResult


def load_audit(path: Path, plan: CodePlan) -> Audit | None:
    """Load the audit of an earlier call if it was made for these arms; otherwise delete it and return None."""
    try:
        tree = read_sealed(path / AUDIT)
        audit = None if tree is None else Audit.from_json(tree)
    except (DamagedFile, KeyError, TypeError, ValueError):
        say(f"{path / AUDIT} is damaged and was removed; audit the arms again to check that they are fair")
        audit = None
    if audit is not None and set(audit.arms) == set(plan.study.arms):
        return audit
    (path / AUDIT).unlink(missing_ok=True)
    return None


def drop_single_seed_limit(audit: Audit | None, plan: CodePlan) -> Audit | None:
    """Remove the caveat that a single seed was audited if the comparison runs several seeds."""
    if audit is None or len(plan.study.trial_seeds) < 2:
        return audit
    return replace(audit, limits=tuple(limit for limit in audit.limits if limit != ONE_SEED))


def describe_model(model: Any) -> Code:
    """Return a model's class as code, with the model as it prints itself."""
    code = hash_code(type(model))
    return code.model_copy(
        update={"text": f"{code.text}\n# {type(model).__name__}, as it was watched\n{indent(repr(model), '# ')}\n"}
    )


def save_recorded(
    out: str | Path,
    code: Code,
    settings: Mapping[str, Any],
    recorded: LayerSource,
    curves: Mapping[str, Mapping[int, float]],
    *,
    question: str,
    remarks: Sequence[str],
    files: Mapping[str, bytes],
    figures: bool = True,
) -> Result:
    """Save a training that the user ran as a run with one arm. An existing run is moved aside."""
    options = Conduct("gradlab.watch(model, optimizer)", Path(out), force=True, figures=figures)
    arm = code.function
    kept = {name: dict(curve) for name, curve in curves.items() if curve}
    headline = {"metric": "loss"} if "loss" in kept else {"metric": "grad_l2", "at": {"layer": 1, "step": "end"}}
    study = CodeStudy(
        name="watched",
        question=question,
        arms={arm: dict(settings)},
        seeds=(0,),
        headline=headline,
        remarks=tuple(remarks),
        watched=True,
        code=code,
    )
    plan = code_plan(study, numerics())
    (trial,) = plan.trials
    outcome = make_outcome({"layers": recorded, **kept})
    result = TrialResult(trial, outcome, None, 0.0, digest(trial.id, outcome, None))
    with RunFolder.start(Path(out), plan, environment(), options.command, force=options.force) as folder:
        folder.commit([result])
        for name, content in files.items():
            folder.write_file(name, content)
        return finish(folder, Measured(plan, folder.records()), options, names={arm: recorded.layer_names})
