"""Open a run's folder as a `Result`. Nothing is trained, no data are needed, no code of the run is executed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gradlab.analysis.measured import Measured
from gradlab.errors import StoreError, StudyError, described
from gradlab.parts import BUILT_IN, Catalog
from gradlab.plans.outline import Outline
from gradlab.plans.saving import CODE, load_parts, part_files, restored, restored_code
from gradlab.report.history import read_history
from gradlab.report.inside.recording import Recording
from gradlab.report.inside.retrain import choose_pair, record_inside
from gradlab.report.result import Result
from gradlab.runs.store.folder import LEDGERLESS, names_by_group
from gradlab.runs.store.opened import OpenedRun
from gradlab.runs.store.report_folder import MICROWORLD, PLAN, ReportFolder
from gradlab.spec import files


def open_run(folder: str | Path, *, trust: bool = False) -> Result:
    """The result of a run in a folder, finished or not.

    Nothing that came with the run is executed, wherever it came from. With `trust`, the user parts it was made with are
    loaded from its folder (their checksums have to match): for figures they draw, and for looking into networks again.
    """
    run = OpenedRun(Path(folder))
    plan = _restore_plan(run.plan, run.path, trust)
    history = read_history(run.path, required=run.plan["format"] > LEDGERLESS)
    return Result(
        Measured(plan, run.records),
        run.environment,
        str(run.plan.get("command", "")),
        folder=run.path,
        audit=run.audit,
        recording=run.read(MICROWORLD, Recording.from_json),
        layer_names=names_by_group(plan, run.layer_names),
        notes=(*run.notes, *history.problems),
        history=history,
    )


def look_again(result: Result, arms: tuple[str, str] | None, seed: int | None) -> Result:
    """The result with the micro-world of other arms or another seed, which is kept in the run's folder."""
    kept = result.recording
    chosen = arms or (kept.arms if kept is not None else choose_pair(result.measured.plan))
    if chosen is None:
        raise StudyError("this study has no pair of arms with enough layers to look into; name two with --pair")
    recording = record_inside(result.measured, chosen, seed)
    if recording is None:
        raise StudyError(f"{chosen[0]} and {chosen[1]} cannot be looked into: too large, or a user part fails")
    if result.folder is not None:
        ReportFolder(result.folder).keep_microworld(recording.to_json())
    return replace(result, recording=recording)


def _restore_plan(tree: Mapping[str, Any], path: Path, trust: bool) -> Outline:
    """The plan of a saved run of either kind; code of its own is run only with `trust`."""
    if tree.get("kind") == CODE:
        return restored_code(tree, str(path))
    try:
        own = part_files(tree, path)
        catalog = BUILT_IN if not own else load_parts(own) if trust else Catalog.unread(own)
        return restored(tree, files.resolve(tree["tree"], str(path), quick=tree["quick"], catalog=catalog))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StoreError(f"{path / PLAN} is damaged: {described(error)}") from None
