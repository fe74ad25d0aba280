"""The lab from Python: load a study, plan it, run it, look at the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from gradlab import studies
from gradlab.analysis.against import Against
from gradlab.analysis.against import against as compared
from gradlab.analysis.measured import Measured
from gradlab.audits.study import audit_plan
from gradlab.audits.verdict import Audit
from gradlab.coordinator import Tally, conduct
from gradlab.errors import GradlabError, PartError, StoreError, StudyError, described, nearest
from gradlab.execute.base import Executor, TrialResult
from gradlab.execute.bundles import executed, suited
from gradlab.microworld.film import Film, choose, shoot
from gradlab.microworld.frame import Frame
from gradlab.parts import BUILT_IN, Catalog, blaming
from gradlab.plan.cost import require_address_space
from gradlab.plan.outline import Outline
from gradlab.plan.plan import Plan, fitting_workers, make_plan
from gradlab.plan.saved import CODE, load_parts, part_files, restored, restored_code
from gradlab.result import Result
from gradlab.spec import files
from gradlab.spec.files import Resolved
from gradlab.spec.place import At
from gradlab.spec.study import Study
from gradlab.store.environment import checked_environment, environment
from gradlab.store.folder import AUDIT, ENVIRONMENT, FILM, LAYER_NAMES, PLAN, ReportFolder, RunFolder
from gradlab.store.sealed import UNSEALED, DamagedFile, read_sealed
from gradlab.store.status import RunStatus, committed, plan_of
from gradlab.store.status import status as status_of

Overrides = Mapping[str, Any] | Sequence[str]
AUDITED_SEEDS, AUDITED_PAIRS, MANY_STEPS = 3, 100, 1_000_000
"""How much a run compares before it begins (one seed of very long trainings); `audit` compares everything."""
StudyLike = str | Path | Mapping[str, Any] | Study | Resolved


def list_studies() -> list[str]:
    """Names of the built-in studies."""
    return studies.names()


def load(
    study: StudyLike, *, overrides: Overrides = (), seeds: int | Sequence[int] | None = None, quick: bool = False
) -> Resolved:
    """A study with its parts loaded and every group checked.

    `study` is a built-in name, a YAML file, a mapping or a `Study`; `overrides` are `{"train.lr": 3e-4}` or
    `["train.lr=3e-4"]`.
    """
    if isinstance(study, Resolved):
        _refuse_options(study, overrides, seeds, quick)
        return study
    if isinstance(study, Study):
        tree, source = study.model_dump(mode="json", exclude_unset=True), study.name
    elif isinstance(study, Mapping):
        tree, source = files.checked_tree(study, "study"), str(study.get("name", "study"))
    else:
        path = studies.locate(str(study))
        tree, source = files.read(path), str(study)
    changes = _listed(overrides)
    with blaming(bool(tree.get("parts"))):
        return _resolved(tree, source, changes, seeds, quick)


def _resolved(tree: Mapping[str, Any], source: str, changes: Any, seeds: Any, quick: bool) -> Resolved:
    full = files.with_overrides(tree, changes, seeds)
    if not quick:
        resolved = files.resolve(full, source)
        if resolved.study.quick:  # a mistake in the quick form is found now, not when it is first asked for
            files.check_quick(full, source)
        return resolved
    return files.resolve(files.with_overrides(files.quick_form(tree), changes, seeds), source, quick=True)


def _listed(overrides: Any) -> list[str | tuple[str, Any]]:
    if isinstance(overrides, str):
        return [overrides]
    if isinstance(overrides, Mapping):
        return [(str(path), value) for path, value in overrides.items()]
    if isinstance(overrides, Sequence):
        return list(overrides)
    raise StudyError(f"overrides: a mapping from paths to values or a list of path=value, not {overrides!r}")


def _refuse_options(study: object, overrides: Overrides, seeds: object, quick: bool) -> None:
    if overrides or seeds is not None or quick:
        raise StudyError(f"overrides, seeds and quick do not apply to a {type(study).__name__}; give them when loading")


def dry_run(study: StudyLike, **options: Any) -> Plan:
    """Every trial of a study and its cost; nothing is run. Options as for `load`."""
    resolved = load(study, **options)
    with blaming(bool(resolved.catalog.files)):
        return make_plan(resolved)


def audit(study: StudyLike | Plan, **options: Any) -> Audit:
    """Is a study's comparison fair, and what can it not attribute? Nothing is trained. Options as for `load`.

    Every pair of groups at every seed, realised: initial tensors, data, batch order, learning rates, budgets.
    """
    plan = study if isinstance(study, Plan) else dry_run(study, **options)
    with blaming(bool(plan.catalog.files)):
        return audit_plan(plan)


def run(
    study: StudyLike | Plan,
    *,
    overrides: Overrides = (),
    seeds: int | Sequence[int] | None = None,
    quick: bool = False,
    out: str | Path | None = None,
    command: str | None = None,
    workers: int | None = None,
    executor: Executor | str = "pool",
    fail_fast: bool = False,
    force: bool = False,
    mixed: bool = False,
    figures: bool = True,
    on_audit: Callable[[Audit], None] | None = None,
    on_start: Callable[[Tally], None] | None = None,
    on_results: Callable[[Sequence[TrialResult]], None] | None = None,
    on_stop: Callable[[], None] | None = None,
) -> Result:
    """Run a study, or what is left of it. With `out`, its folder gets the results as they come, figures and report.

    Trials run side by side on `workers` threads (all cores), or wherever `executor` says; the results do not depend on
    it. Ctrl-C keeps the finished trials: the result is then `unfinished`, and the same call goes on later. `force`
    starts afresh beside an old run, `mixed` continues one that was begun under other versions; without `figures` the
    report has none.
    """
    if isinstance(study, Plan):
        _refuse_options(study, overrides, seeds, quick)
        planned = study
    else:
        planned = dry_run(study, overrides=overrides, seeds=seeds, quick=quick)
    require_address_space()
    call = command or _python_call(study, overrides, seeds, quick)
    chosen = _executor(executor, planned, workers) if isinstance(executor, str) else executor
    surroundings = environment()
    apart = chosen.apart and bool(planned.resolved.catalog.files)
    audited = _audited(planned, apart)
    if on_audit is not None and audited is not None:
        on_audit(audited)
    start = partial(executed, planned, chosen)
    hooks: Any = {"fail_fast": fail_fast, "on_start": on_start, "on_results": on_results, "on_stop": on_stop}
    if out is None:
        found = conduct(planned, start, None, **hooks)
        return Result(Measured(planned, found.records), surroundings, call, None, audited, found.stopped)
    with RunFolder.start(Path(out), planned, surroundings, call, force=force, mixed=mixed) as folder:
        keep_audit(folder, audited)
        found = conduct(planned, start, folder, **hooks)
        begun = read_sealed(folder.path / ENVIRONMENT) or surroundings
        notes = tuple(folder.notes)
        measured = Measured(planned, found.records)
        film = _film(measured, folder, apart) if figures and not found.stopped else None
        result = Result(measured, begun, call, Path(out), audited, found.stopped, notes, film=film)
        result.write(folder, figures=figures)
    return result


def keep_audit(folder: ReportFolder, audited: Audit | None) -> None:
    """Write an audit to a run's folder, where `open_run` finds it."""
    if audited is not None:
        folder.write_sealed(AUDIT, audited.to_json())


def _audited(plan: Plan, apart: bool) -> Audit | None:
    """The audit before a run; None if a user part raises; its trials will then fail with that error."""
    try:
        longest = max(planned.cost.steps for planned in plan.groups)
        seeds = AUDITED_SEEDS if longest <= MANY_STEPS else 1
        found: Audit = _called(apart, audit_plan, plan, seeds=seeds, pairs=AUDITED_PAIRS)
        return found
    except (GradlabError, KeyboardInterrupt):
        raise
    except BaseException:  # a part of the user's may call sys.exit, or raise what it likes
        return None


def _called(apart: bool, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """A call; `apart` in a process of its own, so that a part of the user's that kills it does not kill us."""
    if not apart:
        return function(*arguments, **options)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments, **options).result()


def _film(measured: Measured, folder: ReportFolder, apart: bool) -> Film | None:
    """The micro-world of the pair that tells most, kept in the run's folder; None where there is nothing to see."""
    arms = _best_pair(measured)
    if arms is None:
        return None
    film = look_inside(measured, arms, apart=apart)
    if film is not None:
        folder.write_sealed(FILM, film.to_json(), indent=None)
    return film


def _best_pair(measured: Measured) -> tuple[str, str] | None:
    return choose(measured.plan) if isinstance(measured.plan, Plan) else None


def look_inside(
    measured: Measured, arms: tuple[str, str], seed: int | None = None, *, apart: bool = False
) -> Film | None:
    """Two arms at a seed (the first), layer by layer while they learn; None where a network is too large, or fails."""
    if not isinstance(measured.plan, Plan):
        raise StudyError("the micro-world is made of networks of the lab; in code of your own, use gradlab.watch")
    if not measured.plan.catalog.executed:
        raise PartError(
            "the networks of this run are trained again to be looked into, and parts of them are code that came with "
            "the run; --trust (in Python: open_run(…, trust=True)) runs it"
        )
    for arm in arms:
        if arm not in measured.group_names:
            raise StudyError(f"{arm!r} is not a group of this study{nearest(arm, measured.group_names)}")
    chosen = measured.study.trial_seeds[0] if seed is None else seed
    kept: dict[str, dict[str, Any]] = {}
    for trial in measured.trials:
        if trial.group in arms and trial.seed == chosen:
            weights = measured.records.weights(trial.id)
            if weights:
                kept[trial.group] = dict(weights[max(weights)])
    try:
        film: Film | None = _called(apart, shoot, measured.plan, arms, chosen, kept)
        return None if film is None else _with_updates(film, measured)
    except (GradlabError, KeyboardInterrupt):
        raise
    except BaseException:  # a part of the user's may fail where training did not
        return None


def look_again(result: Result, arms: tuple[str, str] | None, seed: int | None) -> Result:
    """A result with the micro-world of other arms or another seed; it is kept in the run's folder."""
    chosen = arms or (result.film.arms if result.film is not None else _best_pair(result.measured))
    if chosen is None:
        raise StudyError("this study has no pair of arms with enough layers to look into; name two with --pair")
    film = look_inside(result.measured, chosen, seed)
    if film is None:
        raise StudyError(f"{chosen[0]} and {chosen[1]} cannot be looked into: too large, or a part of theirs fails")
    if result.folder is not None:
        ReportFolder(result.folder).write_sealed(FILM, film.to_json(), indent=None)
    return replace(result, film=film)


def _with_updates(film: Film, measured: Measured) -> Film:
    """The film with the update ratios that the study measured at the same steps."""

    def filled(arm: str, one: Frame) -> Frame:
        layers = range(1, measured.layer_count(arm) + 1)
        places = [At(step=one.step, layer=layer) for layer in layers]
        found = [measured.values("update_ratio", arm, at).get(film.seed) for at in places]
        known = [np.nan if value is None else float(value) for value in found]
        return replace(one, update=np.array(known) if np.isfinite(known).any() else None)

    first, second = (
        tuple(filled(arm, one) for one in frames) for arm, frames in zip(film.arms, film.frames, strict=True)
    )
    return replace(film, frames=(first, second))


def _executor(name: str, plan: Plan, workers: int | None = None) -> Executor:
    """The executor of this name, with as many workers as asked for, or as cores and memory allow."""
    part = plan.catalog.get("executor", name)
    sized = {"workers": fitting_workers(plan, workers)} if "workers" in part.parameter_names() else {}
    return part.parse(sized)  # type: ignore[return-value]


def suited_executor(plan: Plan, left: int, workers: int | None = None) -> str:
    """The name of the executor that suits the trials that are left: worker processes for thousands of short ones.

    They start a second later and need a main module that can be imported again, so `run` takes them only if asked.
    """
    return suited(plan, left, fitting_workers(plan, workers))


def finished(folder: str | Path, plan: Outline) -> int:
    """How many trials of a plan are already done in a run's folder; 0 where there is no such run."""
    path = Path(folder)
    try:
        if not path.is_dir():
            return 0
    except OSError:  # a name that cannot be a folder's: starting the run says so
        return 0
    done = committed(path)[0].finished
    return len(done & {trial.id for trial in plan.trials})


def open_run(folder: str | Path, *, trust: bool = False) -> Result:
    """The result of a run that is in a folder, finished or not: nothing is trained, no data are needed.

    Nothing that came with the run is executed, wherever it came from. With `trust`, the parts of the user's own that it
    was made with are loaded from its folder (their checksums have to fit): for figures that they draw, and for looking
    into networks once more.
    """
    path = Path(folder)
    tree = plan_of(path)
    plan = _plan_again(tree, path, trust)
    records, damaged = committed(path)
    beside = _Beside(path, tree["format"] > UNSEALED)
    audited, film = beside.read(AUDIT, Audit.from_json), beside.read(FILM, Film.from_json)
    names = names_by_group(plan, beside.read(LAYER_NAMES, dict) or {})
    environment = beside.read(ENVIRONMENT, checked_environment) or {}
    notes = (*damaged, *beside.notes)
    measured = Measured(plan, records)
    call = str(tree.get("command", ""))
    return Result(measured, environment, call, path, audited, False, notes, film=film, layer_names=names)


class _Beside:
    """Reads what lies beside the results; what is damaged is named, and the rest is still shown."""

    def __init__(self, path: Path, sealed: bool) -> None:
        self._path = path
        self._sealed = sealed
        self.notes: list[str] = []

    def read(self, name: str, made: Callable[[dict[str, Any]], Any]) -> Any:
        """What `made` makes of a file; None where it is not there, or damaged."""
        try:
            found = read_sealed(self._path / name, required=self._sealed)
            return None if found is None else made(found)
        except DamagedFile as error:
            self.notes.append(f"{error}; {_REMEDY[name]}")
        except (KeyError, TypeError, ValueError, AttributeError, IndexError):  # an old file, without a checksum
            self.notes.append(f"{self._path / name} is damaged; {_REMEDY[name]}")
        return None


_REMEDY = {
    AUDIT: "whether the comparison is fair is not known until the study is run again",
    FILM: "the micro-world is left out; `gradlab report RUN --seed N` makes it again",
    LAYER_NAMES: "layers are shown by their numbers",
    ENVIRONMENT: "versions and machine are not known",
}


def _plan_again(tree: Mapping[str, Any], path: Path, trust: bool) -> Outline:
    """The plan of a saved run, of whichever kind; only with `trust` code of its own is run."""
    if tree.get("kind") == CODE:
        return restored_code(tree, str(path))
    try:
        own = part_files(tree, path)
        catalog = BUILT_IN if not own else load_parts(own) if trust else Catalog.unread(own)
        return restored(tree, files.resolve(tree["tree"], str(path), quick=tree["quick"], catalog=catalog))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StoreError(f"{path / PLAN} is damaged: {described(error)}") from None


def names_by_group(plan: Outline, by_id: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    """Group -> what its layers are called, from what a run's folder keeps by id."""
    return {planned.group.name: by_id[planned.id] for planned in plan.groups if planned.id in by_id}


def against(first: Result, second: Result) -> Against:
    """What differs between two results: in their studies, in their numbers, in their bits."""
    return compared(first.measured, second.measured)


def status(folder: str | Path) -> RunStatus:
    """Where a run stands: done, running, failed, diverged, left, and whether anybody is working on it."""
    return status_of(Path(folder))


def _python_call(study: object, overrides: Overrides, seeds: object, quick: bool) -> str:
    """The call that made a result; a study that was not a name or a file is in the run's folder."""
    words = [repr(str(study)) if isinstance(study, str | Path) else '"study.yaml"']
    words += [f"overrides={overrides!r}"] if overrides else []
    words += [f"seeds={seeds!r}"] if seeds is not None else []
    return f"gradlab.run({', '.join([*words, *(['quick=True'] if quick else [])])})"
