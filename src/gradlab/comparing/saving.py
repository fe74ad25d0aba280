"""Run folders of users' code: earlier audits, and a watched training as a run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import indent
from typing import Any

from gradlab.analysis.measured import Measured
from gradlab.audits.audit import ONE_SEED, Audit
from gradlab.comparing.live import FILE, NOTHING_WRONG, read_live
from gradlab.comparing.outcomes import LayerSource, make_outcome
from gradlab.comparing.planning import hash_code, numerics
from gradlab.errors import StoreError, described
from gradlab.notices import say
from gradlab.plans.plan import Plan, plan_code
from gradlab.report.result import Result
from gradlab.running.start import RunOptions, finish
from gradlab.runs.store.environment import environment
from gradlab.runs.store.files import DamagedFile, read_fitted
from gradlab.runs.store.folder import AUDIT, RunFolder
from gradlab.spec.study import Code, Study
from gradlab.trials.outcome import TrialResult, digest

RUN = "run"
"""Where a watch on the disk is saved, below its folder."""


def load_audit(path: Path, plan: Plan) -> Audit | None:
    """Load the audit of an earlier call if it was made for these arms; otherwise delete it and return None."""
    try:
        audit = read_fitted(path / AUDIT, Audit.from_json)
    except DamagedFile as error:
        say(f"{error}; it was removed: audit the arms again to check that they are fair")
        audit = None
    if audit is not None and set(audit.arms) == set(plan.study.arms or ()):
        return audit
    (path / AUDIT).unlink(missing_ok=True)
    return None


def drop_single_seed_limit(audit: Audit | None, plan: Plan) -> Audit | None:
    """Remove the caveat that a single seed was audited if the comparison runs several seeds."""
    if audit is None or len(plan.study.trial_seeds) < 2:
        return audit
    return replace(audit, facts=tuple(fact for fact in audit.facts if fact.code != ONE_SEED.code))


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
    options = RunOptions(out, command="gradlab.watch(model, optimizer)", force=True, figures=figures)
    arm = code.function
    kept = {name: dict(curve) for name, curve in curves.items() if curve}
    headline = {"metric": "loss"} if "loss" in kept else {"metric": "grad_l2", "at": {"layer": 1, "step": "end"}}
    study = Study(
        name="watched",
        question=question,
        arms={arm: dict(settings)},
        seeds=(0,),
        headline=headline,
        notes=tuple(remarks),
        code=code.model_copy(update={"watched": True}),
    )
    plan = plan_code(study, numerics())
    (trial,) = plan.trials
    outcome = make_outcome({"layers": recorded, **kept})
    result = TrialResult(trial, outcome, None, 0.0, digest(trial.id, outcome, None))
    with RunFolder.start(Path(out), plan, environment(), options.command, force=options.force) as folder:
        folder.commit([result])
        for name, content in files.items():
            folder.write_file(name, content)
        return finish(folder, Measured(plan, folder.records), options, names={arm: recorded.layer_names})


def save_live(folder: Path, out: Path | None = None, *, figures: bool = True) -> Result:
    """Make a run of what a watch has left so far, by default in `run` below its folder; an earlier one is replaced."""
    live = read_live(folder)
    if not live.probed:
        raise StoreError(f"{folder}: the watch has not recorded a step yet")
    out = out or folder / RUN
    if (out / "plan.json").is_file():
        shutil.rmtree(out)
    name = live.header.model
    code = Code(function=name, sha256=live.header.sha256, text=live.header.code)
    remarks = [finding.words for finding in live.findings] or [NOTHING_WRONG]
    try:
        return save_recorded(
            out,
            code,
            {"every": live.header.every, "steps": live.probed[-1].step + 1},
            live,
            live.curves(),
            question=f"What happens inside {name} while it trains?",
            remarks=remarks,
            files={},
            figures=figures,
        )
    except ValueError as error:
        raise StoreError(f"{folder / FILE} is damaged: {described(error)}") from None


@contextmanager
def opened_live(folder: Path) -> Iterator[Path]:
    """The run that a watch would make, for reading: in a temporary folder, so that nothing is changed."""
    with TemporaryDirectory(prefix="gradlab-watch-") as place:
        save_live(folder, Path(place) / RUN, figures=False)
        yield Path(place) / RUN
