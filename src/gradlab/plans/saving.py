"""Convert a plan to plain data and back, so that a run can be opened without its data and without planning again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from gradlab.errors import StoreError, shortened
from gradlab.parts import Catalog, PartFile
from gradlab.plans.cost import Cost
from gradlab.plans.plan import MAX_TRIALS, Plan, PlannedGroup, list_trials
from gradlab.plans.tuning import assemble, list_candidates, resolved_at, resolved_candidates, untuned_name, with_choice
from gradlab.spec.base import content_id
from gradlab.spec.expand import to_full_tree
from gradlab.spec.files import Resolved, to_yaml
from gradlab.spec.stored import Count, Stored, Whole
from gradlab.spec.yaml_text import dump
from gradlab.trials.trial import group_id, trial_id

STUDY, CODE = "study", "code"
TUNING, JUDGING = "tuning", "judging"
"""The phases of a run."""
PARTS = "parts"
_FIELDS = ("classes", "stated", "engine", "reason", "numerics", "id", "content")
_FOREIGN = "the saved plan does not belong to its study; run the study again"


class SavedCost(Stored):
    """A `Cost`."""

    model_config = ConfigDict(extra="forbid")

    parameters: Count
    layers: Count
    steps: Count
    steps_per_epoch: Count
    flops: Count
    bytes: Count
    step_calls: Count
    look_calls: Count


class SavedGroup(Stored):
    """A group of a plan; of the user's code, no cost is known."""

    name: str
    numerics: str
    id: str
    content: str
    classes: Count | None
    stated: str
    engine: str
    reason: str | None
    extra: Annotated[Count, Field(le=MAX_TRIALS)] = 0
    cost: SavedCost | None


class SavedTuning(Stored):
    """The second phase of a plan that tunes."""

    seeds: list[Whole]
    groups: list[SavedGroup]
    untuned: bool
    base: list[SavedGroup]
    chosen: dict[str, str] | None


class SavedPart(Stored):
    """A part file that came with the study."""

    file: str
    sha256: str
    helpers: dict[str, str] = Field(default_factory=dict)


class SavedPlan(Stored):
    """What `plan.json` holds."""

    kind: str = STUDY
    study: str
    question: str
    quick: bool
    command: str = ""
    seeds: list[Whole]
    groups: Annotated[list[SavedGroup], Field(min_length=1)]
    tree: dict[str, Any]
    parts: list[SavedPart] = Field(default_factory=list)
    tuning: SavedTuning | None = None


def saved(plan: Plan) -> dict[str, Any]:
    """Return the study and everything that planning computed, group by group."""
    return {
        "kind": CODE if plan.own_code else STUDY,
        "study": plan.study.name,
        "question": plan.study.question,
        "quick": plan.quick,
        "seeds": list(plan.study.trial_seeds),
        "groups": _saved_groups(plan),
        "tree": plan.study.model_dump(mode="json", exclude_unset=True, exclude_none=True),
        "parts": [_part_entry(number, file) for number, file in enumerate(plan.catalog.files)],
        **({"tuning": _saved_tuning(plan)} if plan.tuning is not None else {}),
    }


def _saved_groups(plan: Plan) -> list[dict[str, Any]]:
    return [
        {
            "name": planned.group.name,
            **{name: getattr(planned, name) for name in _FIELDS},
            **({"extra": planned.extra} if planned.extra else {}),
            "cost": None if planned.known_cost is None else asdict(planned.known_cost),
        }
        for planned in plan.groups
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


def saved_files(plan: Plan) -> dict[str, bytes]:
    """Return human-readable files that document what was run, by name."""
    if plan.study.code is not None:
        tree = plan.study.model_dump(mode="json", exclude={"code"}, exclude_unset=True, exclude_none=True)
        return {"comparison.yaml": dump(tree).encode(), plan.study.code_file: plan.study.code.text.encode()}
    files = enumerate(plan.catalog.files)
    sources = {f"{PARTS}/{_part_name(number, file.path)}": Path(file.path).read_bytes() for number, file in files}
    texts = {"study.yaml": to_yaml(plan.study), "resolved.yaml": dump(to_full_tree(plan.resolved.groups))}
    return {**sources, **{name: text.encode() for name, text in texts.items()}}


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
    """Raise a `ValueError` that names the field if this is not the output of `saved`, whoever computed its checksum."""
    found = SavedPlan.fit(tree)
    tuning = found.tuning
    for group in [*found.groups, *([*tuning.groups, *tuning.base] if tuning is not None else ())]:
        if group.id != group_id(group.content, group.numerics):
            raise ValueError(f"the id of {shortened(group.name)} does not match its content")
    if sum(group.extra for group in found.groups) > MAX_TRIALS:
        raise ValueError(f"groups: more than {MAX_TRIALS:,} trials")


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
    groups = []
    for group in resolved.groups:
        fields, cost = {name: found[group.name][name] for name in _FIELDS}, found[group.name]["cost"]
        extra = found[group.name].get("extra", 0)
        groups.append(PlannedGroup(group, None if cost is None else Cost(**cost), **fields, extra=extra))
    if resolved.study.code is not None and any(
        planned.content != content_id([resolved.study.code.sha256, planned.group.settings]) for planned in groups
    ):
        raise StoreError(_FOREIGN)
    return Plan(resolved, tuple(groups), list_trials(resolved, groups))


def saved_phases(tree: Mapping[str, Any]) -> dict[str, list[tuple[Mapping[str, Any], Sequence[int]]]]:
    """Phase -> its groups with their seeds, in a saved plan. A study that tunes nothing has one phase, `judging`."""
    judged = [(group, seeds_of(tree, group)) for group in tree["groups"]]
    tuning = tree.get("tuning")
    if tuning is None:
        return {JUDGING: judged}
    tried = [(group, tuning["seeds"]) for group in tuning["groups"]]
    base = tuning["base"] if tuning["untuned"] else ()
    return {
        TUNING: tried,
        JUDGING: [*judged, *(({**group, "name": untuned_name(group["name"])}, tree["seeds"]) for group in base)],
    }


def seeds_of(tree: Mapping[str, Any], group: Mapping[str, Any]) -> Sequence[int]:
    """The seeds of a judged group: seeds are added only to studies that number them 0, 1, 2, …"""
    seeds = tree["seeds"]
    return [*seeds, *range(len(seeds), len(seeds) + group.get("extra", 0))]


def trial_ids(tree: Mapping[str, Any]) -> dict[str, tuple[str, int]]:
    """Map the trial ids of a saved plan to (group, seed): of every phase."""
    return {identity: found for phase in saved_phases(tree) for identity, found in phase_ids(tree, phase).items()}


def phase_ids(tree: Mapping[str, Any], phase: str) -> dict[str, tuple[str, int]]:
    """The same of one phase."""
    groups = saved_phases(tree)[phase]
    return {trial_id(group["id"], seed): (group["name"], seed) for group, seeds in reversed(groups) for seed in seeds}
