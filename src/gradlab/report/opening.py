"""Open a run's folder as a `Result`. Nothing is trained, no data are needed, no code of the run is executed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gradlab.analysis.measured import Measured
from gradlab.audits.audit import Audit
from gradlab.errors import StoreError, StudyError, described
from gradlab.parts import BUILT_IN, Catalog
from gradlab.plans.outline import Outline
from gradlab.plans.saving import CODE, load_parts, part_files, restored, restored_code
from gradlab.report.history import read_history
from gradlab.report.inside.film import Film
from gradlab.report.inside.looking import default_pair, look_inside
from gradlab.report.result import Result
from gradlab.runs.store.environment import checked_environment
from gradlab.runs.store.folder import AUDIT, ENVIRONMENT, FILM, LAYER_NAMES, LEDGERLESS, PLAN, ReportFolder
from gradlab.runs.store.sealed import UNSEALED, DamagedFile, read_sealed
from gradlab.runs.store.status import committed, plan_of
from gradlab.spec import files


def open_run(folder: str | Path, *, trust: bool = False) -> Result:
    """The result of a run in a folder, finished or not.

    Nothing that came with the run is executed, wherever it came from. With `trust`, the user parts it was made with are
    loaded from its folder (their checksums have to match): for figures they draw, and for looking into networks again.
    """
    path = Path(folder)
    tree = plan_of(path)
    plan = _restore_plan(tree, path, trust)
    records, damaged = committed(path)
    beside = _Beside(path, tree["format"] > UNSEALED)
    audit, film = beside.read(AUDIT, Audit.from_json), beside.read(FILM, Film.from_json)
    names = names_by_group(plan, beside.read(LAYER_NAMES, dict) or {})
    environment = beside.read(ENVIRONMENT, checked_environment) or {}
    history = read_history(path, required=tree["format"] > LEDGERLESS)
    notes = (*damaged, *beside.notes, *history.problems)
    command = str(tree.get("command", ""))
    return Result(
        Measured(plan, records),
        environment,
        command,
        path,
        audit,
        False,
        notes,
        film=film,
        layer_names=names,
        history=history,
    )


def look_again(result: Result, arms: tuple[str, str] | None, seed: int | None) -> Result:
    """The result with the micro-world of other arms or another seed, which is kept in the run's folder."""
    chosen = arms or (result.film.arms if result.film is not None else default_pair(result.measured))
    if chosen is None:
        raise StudyError("this study has no pair of arms with enough layers to look into; name two with --pair")
    film = look_inside(result.measured, chosen, seed)
    if film is None:
        raise StudyError(f"{chosen[0]} and {chosen[1]} cannot be looked into: too large, or a user part fails")
    if result.folder is not None:
        ReportFolder(result.folder).write_sealed(FILM, film.to_json(), indent=None)
    return replace(result, film=film)


def names_by_group(plan: Outline, by_id: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    """Group -> the names of its layers, from what a run's folder keeps by id."""
    return {planned.group.name: by_id[planned.id] for planned in plan.groups if planned.id in by_id}


_REMEDY = {
    AUDIT: "whether the comparison is fair is not known until the study is run again",
    FILM: "the micro-world is left out; `gradlab report RUN --seed N` makes it again",
    LAYER_NAMES: "layers are shown by their numbers",
    ENVIRONMENT: "versions and machine are not known",
}


class _Beside:
    """Reads the files beside the results; a damaged one is noted, and the rest is still shown."""

    def __init__(self, path: Path, sealed: bool) -> None:
        self._path = path
        self._sealed = sealed
        self.notes: list[str] = []

    def read(self, name: str, parse: Callable[[dict[str, Any]], Any]) -> Any:
        """The parsed file; None if it is missing or damaged."""
        try:
            found = read_sealed(self._path / name, required=self._sealed)
            return None if found is None else parse(found)
        except DamagedFile as error:
            self.notes.append(f"{error}; {_REMEDY[name]}")
        except (KeyError, TypeError, ValueError, AttributeError, IndexError):  # an old file, without a checksum
            self.notes.append(f"{self._path / name} is damaged; {_REMEDY[name]}")
        return None


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
