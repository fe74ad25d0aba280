"""Convert a plan to plain data and back, so that a run can be opened without its data and without planning again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import ValidationError

from gradlab.errors import StoreError, shortened
from gradlab.parts import Catalog, PartFile
from gradlab.plans import code
from gradlab.plans.candidates import list_candidates
from gradlab.plans.code import CodePlan
from gradlab.plans.cost import Cost
from gradlab.plans.outline import Outline
from gradlab.plans.plan import Plan, PlannedGroup, list_trials
from gradlab.plans.tuning import assemble, resolved_at, resolved_candidates, untuned_name, with_choice
from gradlab.spec.code import CodeStudy
from gradlab.spec.expand import to_full_tree
from gradlab.spec.files import Resolved, to_yaml
from gradlab.spec.messages import study_error
from gradlab.spec.yaml_text import dump
from gradlab.trials.trial import group_id, trial_id

STUDY, CODE = "study", "code"
TUNING, JUDGING = "tuning", "judging"
"""The phases of a run."""
PARTS = "parts"
_COMMON = ("numerics", "id", "content")
_FIELDS = ("classes", "stated", "engine", "reason", *_COMMON)
_FOREIGN = "the saved plan does not belong to its study; run the study again"
_TUNING_KEYS: dict[str, Any] = {"seeds": list, "groups": list, "untuned": bool, "base": list, "chosen": dict | None}
_KEYS = {"study": str, "question": str, "quick": bool, "seeds": list, "groups": list, "tree": dict}


def saved(plan: Outline) -> dict[str, Any]:
    """Return the study and everything that planning computed, group by group."""
    if isinstance(plan, Plan):
        groups = _saved_groups(plan)
        parts = [_part_entry(number, file) for number, file in enumerate(plan.catalog.files)]
        kind, tree = STUDY, plan.study.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    else:
        assert isinstance(plan, CodePlan)
        groups = [{"name": f.group.name, **{name: getattr(f, name) for name in _COMMON}} for f in plan.groups]
        kind, tree, parts = CODE, plan.study.model_dump(mode="json", exclude_unset=True, exclude_none=True), []
    return {
        "kind": kind,
        "study": plan.study.name,
        "question": plan.study.question,
        "quick": plan.quick,
        "seeds": list(plan.study.trial_seeds),
        "groups": groups,
        "tree": tree,
        "parts": parts,
        **({"tuning": _saved_tuning(plan)} if isinstance(plan, Plan) and plan.tuning is not None else {}),
    }


def _saved_groups(plan: Plan) -> list[dict[str, Any]]:
    return [
        {"name": found.group.name, **{name: getattr(found, name) for name in _FIELDS}, "cost": asdict(found.cost)}
        for found in plan.groups
    ]


def _saved_tuning(plan: Plan) -> dict[str, Any]:
    """The groups of the tuning, the arms at the values of the base, and what was chosen, by the candidate's name."""
    tuning = plan.tuning
    assert tuning is not None
    chosen = tuning.chosen
    return {
        "seeds": list(tuning.tune.tuning_seeds),
        "groups": _saved_groups(tuning.plan),
        "untuned": tuning.tune.untuned,
        "base": _saved_groups(tuning.base),
        "chosen": None if chosen is None else {arm: candidate.name for arm, candidate in chosen.items()},
    }


def papers(plan: Outline) -> dict[str, bytes]:
    """Return human-readable files that document what was run, by name."""
    if isinstance(plan, Plan):
        files = enumerate(plan.catalog.files)
        sources = {f"{PARTS}/{_part_name(number, file.path)}": Path(file.path).read_bytes() for number, file in files}
        texts = {"study.yaml": to_yaml(plan.study), "resolved.yaml": dump(to_full_tree(plan.resolved.groups))}
        return {**sources, **{name: text.encode() for name, text in texts.items()}}
    assert isinstance(plan, CodePlan)
    tree = plan.study.model_dump(mode="json", exclude={"code"}, exclude_unset=True, exclude_none=True)
    return {"comparison.yaml": dump(tree).encode(), "code.py": plan.study.code.text.encode()}


def _part_entry(number: int, file: PartFile) -> dict[str, Any]:
    helpers = {"helpers": dict(file.helpers)} if file.helpers else {}
    return {"file": _part_name(number, file.path), "sha256": file.sha256, **helpers}


def part_files(tree: Mapping[str, Any], folder: Path) -> tuple[PartFile, ...]:
    """Return the user's part files in a run folder; a `StoreError` if one is outside the folder."""
    found = []
    for part in tree.get("parts", ()):
        place = PurePosixPath(part["file"])
        path = folder / PARTS / place
        if place.is_absolute() or ".." in place.parts or not path.resolve().is_relative_to(folder.resolve()):
            raise StoreError(f"{folder}: the part file {shortened(part['file'])} is not inside the run folder")
        found.append(PartFile(str(path), part["sha256"], tuple(sorted(part.get("helpers", {}).items()))))
    return tuple(found)


def load_parts(files: Sequence[PartFile]) -> Catalog:
    """Run the code of a run's part files, after checking that they are unchanged."""
    for file in files:
        try:
            content = Path(file.path).read_bytes()
        except OSError as error:
            raise StoreError(f"cannot read {file.path}: {error.strerror or error}") from None
        if sha256(content).hexdigest() != file.sha256:
            raise StoreError(f"{file.path} is not the file that the run was made with: its checksum does not match")
    catalog = Catalog.with_files([file.path for file in files])
    if catalog.files != tuple(files):
        raise StoreError(f"{files[0].path}: the modules that it imports are not those that the run was made with")
    return catalog


def _part_name(number: int, path: str) -> str:
    return f"{number}/{Path(path).name}"


def check_saved(tree: Mapping[str, Any]) -> None:
    """Raise a `ValueError` if this is not the output of `saved`, as far as that is visible without a checksum."""
    for key, kind in _KEYS.items():
        if not isinstance(tree.get(key), kind):
            raise ValueError(f"{key!r} is missing or invalid")
    for key, kind in _TUNING_KEYS.items() if "tuning" in tree else ():
        if not isinstance(tree["tuning"], dict) or not isinstance(tree["tuning"].get(key), kind):
            raise ValueError(f"'tuning.{key}' is missing or invalid")
    if not tree["groups"] or not all(isinstance(seed, int) for seed in tree["seeds"]):
        raise ValueError("its groups or seeds are invalid")
    known = {"name", *_COMMON} if tree.get("kind") == CODE else {"name", "cost", *_FIELDS}
    for group in [
        *tree["groups"],
        *(each for key in ("groups", "base") for each in tree.get("tuning", {}).get(key, ())),
    ]:
        if not isinstance(group, dict) or not known <= group.keys():
            raise ValueError("its groups are invalid")
        words = ("name", *_COMMON, *(("stated", "engine") if "engine" in known else ()))
        if not all(isinstance(group[word], str) for word in words):
            raise ValueError("its groups are invalid")
        if group["id"] != group_id(group["content"], group["numerics"]):
            raise ValueError(f"the id of {group['name']!r} does not match its content")
    for part in tree.get("parts", ()):
        if not (isinstance(part, dict) and isinstance(part.get("file"), str) and isinstance(part.get("sha256"), str)):
            raise ValueError("its parts are invalid")


def restored(tree: Mapping[str, Any], resolved: Resolved) -> Plan:
    """Rebuild the plan of a resolved study from the output of `saved`."""
    saved_tuning = tree.get("tuning")
    if (resolved.study.tune is None) != (saved_tuning is None):
        raise StoreError(_FOREIGN)
    if saved_tuning is None:
        return _restored_plan(tree["groups"], tree["seeds"], resolved)
    candidates = list_candidates(resolved)
    tried = resolved_candidates(resolved, candidates)
    pending = assemble(
        _restored_plan(saved_tuning["base"], tree["seeds"], resolved),
        candidates,
        _restored_plan(saved_tuning["groups"], saved_tuning["seeds"], tried),
    )
    if saved_tuning["chosen"] is None:
        return pending
    by_name = {candidate.name: candidate for candidate in candidates}
    chosen = {arm: by_name[name] for arm, name in saved_tuning["chosen"].items()}
    return with_choice(_restored_plan(tree["groups"], tree["seeds"], resolved_at(resolved, chosen)), pending, chosen)


def _restored_plan(saved_groups: Sequence[Mapping[str, Any]], seeds: Sequence[int], resolved: Resolved) -> Plan:
    found = {group["name"]: group for group in saved_groups}
    names = [group.name for group in resolved.groups]
    if sorted(found) != sorted(names) or list(resolved.study.trial_seeds) != seeds:
        raise StoreError(_FOREIGN)
    groups = tuple(
        PlannedGroup(group, Cost(**found[group.name]["cost"]), **{name: found[group.name][name] for name in _FIELDS})
        for group in resolved.groups
    )
    return Plan(resolved, groups, list_trials(resolved, [group.id for group in groups]))


def restored_code(tree: Mapping[str, Any], source: str) -> CodePlan:
    """Rebuild the plan of a comparison from the output of `saved`; the code itself is not needed."""
    try:
        study = CodeStudy.model_validate(tree["tree"])
        plan = code.plan_arms(study, [group["numerics"] for group in tree["groups"]])
    except ValidationError as error:
        raise StoreError(f"{source} is damaged: {study_error(error, tree['tree'])}") from None
    except ValueError as error:
        raise StoreError(f"{source} is damaged: {error}") from None
    if [group["id"] for group in tree["groups"]] != [arm.id for arm in plan.groups]:
        raise StoreError(f"{source} is damaged: its arms do not match their ids")
    return plan


def saved_phases(tree: Mapping[str, Any]) -> dict[str, list[tuple[Mapping[str, Any], Sequence[int]]]]:
    """Phase -> its groups with their seeds, in a saved plan. A study that tunes nothing has one phase, `judging`."""
    judged = [(group, tree["seeds"]) for group in tree["groups"]]
    tuning = tree.get("tuning")
    if tuning is None:
        return {JUDGING: judged}
    tried = [(group, tuning["seeds"]) for group in tuning["groups"]]
    base = tuning["base"] if tuning["untuned"] else ()
    return {
        TUNING: tried,
        JUDGING: [*judged, *(({**group, "name": untuned_name(group["name"])}, tree["seeds"]) for group in base)],
    }


def trial_ids(tree: Mapping[str, Any]) -> dict[str, tuple[str, int]]:
    """Map the trial ids of a saved plan to (group, seed): of every phase."""
    return {identity: found for phase in saved_phases(tree) for identity, found in phase_ids(tree, phase).items()}


def phase_ids(tree: Mapping[str, Any], phase: str) -> dict[str, tuple[str, int]]:
    """The same of one phase."""
    groups = saved_phases(tree)[phase]
    return {trial_id(group["id"], seed): (group["name"], seed) for group, seeds in reversed(groups) for seed in seeds}
