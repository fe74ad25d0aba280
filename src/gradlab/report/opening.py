"""Open a run's folder as a `Result`. Nothing is trained, no data are needed, no code of the run is executed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from gradlab.analysis.measured import Measured
from gradlab.errors import StoreError, described, shortened
from gradlab.parts import BUILT_IN, Catalog
from gradlab.plans.plan import Plan
from gradlab.plans.saving import load_parts, part_files, restored
from gradlab.report.history import read_history
from gradlab.report.inside.recording import Recording
from gradlab.report.result import Result
from gradlab.runs.store.folder import MICROWORLD, PLAN, RunFolder, names_by_group
from gradlab.spec import files


def open_run(folder: str | Path, *, trust: bool = False) -> Result:
    """The result of a run in a folder, finished or not.

    Nothing that came with the run is executed, wherever it came from. With `trust`, the user parts it was made with are
    loaded from its folder (their checksums have to match): for figures they draw, and for looking into networks again.
    """
    run = RunFolder.open(Path(folder))
    plan = _restore_plan(run.plan, run.path, trust)
    history = read_history(run.path)
    return Result(
        Measured(plan, run.records),
        run.environment,
        str(run.plan.get("command", "")),
        folder=run.path,
        audit=run.audit,
        recording=run.read(MICROWORLD, partial(_read_recording, plan)),
        layer_names=names_by_group(plan, run.layer_names),
        notes=(*run.notes, *history.problems),
        history=history,
    )


def _read_recording(plan: Plan, tree: Mapping[str, Any]) -> Recording:
    found = Recording.from_json(tree)
    if odd := set(found.arms) - {planned.group.name for planned in plan.groups}:
        raise ValueError(f"arms: {shortened(min(odd))} is not an arm of the study")
    if plan.own_code:
        raise ValueError("only networks of the lab are looked into")
    return found


def _restore_plan(tree: Mapping[str, Any], path: Path, trust: bool) -> Plan:
    """The plan of a saved run; code of its own is run only with `trust`."""
    try:
        own = part_files(tree, path)
        catalog = BUILT_IN if not own else load_parts(own) if trust else Catalog.unread(own)
        return restored(tree, files.resolve(tree["tree"], str(path), quick=tree["quick"], catalog=catalog))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StoreError(f"{path / PLAN} is damaged: {described(error)}") from None
