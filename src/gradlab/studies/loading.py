"""Load a study from a built-in name, a YAML file, a mapping or a `Study`, with overrides."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gradlab import studies
from gradlab.errors import StudyError
from gradlab.parts import blaming
from gradlab.plans.plan import Plan
from gradlab.plans.tuning import plan_study
from gradlab.spec import files
from gradlab.spec.config import BASE_SECTIONS
from gradlab.spec.files import Override, Resolved, Source
from gradlab.spec.paths import label, value_at
from gradlab.spec.study import Study

Overrides = Mapping[str, Any] | Sequence[str]
StudyLike = str | Path | Mapping[str, Any] | Study | Resolved


def load(
    study: StudyLike,
    *,
    overrides: Overrides = (),
    seeds: int | Sequence[int] | Mapping[str, Any] | None = None,
    quick: bool = False,
) -> Resolved:
    """Load a study with its parts and check every group.

    `study` is a built-in name, a YAML file, a mapping or a `Study`; `overrides` are `{"train.lr": 3e-4}` or
    `["train.lr=3e-4"]`.
    """
    if isinstance(study, Resolved):
        refuse_options(study, overrides, seeds, quick)
        return study
    if isinstance(study, Study):
        tree = study.model_dump(mode="json", exclude_unset=True)
        source = Source(study.name, tree)
    elif isinstance(study, Mapping):
        tree = files.check_tree(study, "study")
        source = Source(str(study.get("name", "study")), tree)
    else:
        tree, source = files.read(studies.locate(str(study)), str(study))
    changes = _parse_overrides(overrides)
    with blaming(bool(tree.get("parts"))):
        return _resolve(tree, source, changes, seeds, quick)


def load_text(
    text: str,
    name: str,
    folder: Path,
    overrides: Overrides = (),
    check: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict,
) -> Resolved:
    """Load a study from its YAML text, with paths below the folder; `check` sees the raw tree, overridden, before."""
    tree, source = files.read_text(text, name, folder)
    changes = _parse_overrides(overrides)
    check(files.apply_overrides(tree, changes))
    return _resolve(check(tree), source, changes, None, quick=False)


def plan(study: StudyLike | Plan, **options: Any) -> Plan:
    """Return every trial of a study and its cost without running it. Options as for `load`."""
    if isinstance(study, Plan):
        refuse_options(study, options.get("overrides"), options.get("seeds"), options.get("quick"))
        return study
    resolved = load(study, **options)
    with blaming(bool(resolved.catalog.files)):
        return plan_study(resolved)


def refuse_options(study: object, overrides: object, seeds: object, quick: object) -> None:
    """Raise if options are given for a study that is already loaded."""
    if overrides or seeds is not None or quick:
        raise StudyError(f"overrides, seeds and quick do not apply to a {type(study).__name__}; give them when loading")


def python_call(study: object, overrides: Overrides, seeds: object, quick: bool) -> str:
    """Return the `gradlab.run` call that makes a result; a study given as data is written to the run folder."""
    words = [repr(str(study)) if isinstance(study, str | Path) else '"study.yaml"']
    words += [f"overrides={overrides!r}"] if overrides else []
    words += [f"seeds={seeds!r}"] if seeds is not None else []
    return f"gradlab.run({', '.join([*words, *(['quick=True'] if quick else [])])})"


def _describe_changes(tree: Mapping[str, Any], changes: Sequence[Override]) -> list[str]:
    """What overrides change of the set-up that was published: `model.depth 40, not 20`; nothing if none was."""
    claims = tree.get("claims")
    claimed = any(
        isinstance(claim, Mapping) and "from" in claim for claim in (claims if isinstance(claims, list) else ())
    )
    if not tree.get("published") and not claimed:
        return []
    found = []
    for change in changes:
        path, value = files.parse_override(change)
        first = path.partition(".")[0]
        if first in BASE_SECTIONS:
            base = tree.get("base")
            was = value_at(base, path) if isinstance(base, Mapping) else None
            if was != value:
                found.append(f"{path} {label(value)}" + ("" if was is None else f", not {label(was)}"))
        elif first in ("arms", "axes", "zip"):
            found.append(f"other {first}: {path.partition('.')[2] or first}")
    return found


def _fit_layers(tree: Mapping[str, Any], deep: int, depth: int) -> tuple[dict[str, Any], list[str]]:
    """A tree whose depth was changed from `deep`: its claims' layers at the same relative place, and a remark.

    The last layer stays the last; numbers that were published of layers are dropped, and compared in no case.
    """
    head = value_at(tree["base"], "model.head") in (None, "linear")

    def fit(layer: Any) -> Any:
        if isinstance(layer, list | tuple):
            return [fit(each) for each in layer]
        if not isinstance(layer, int) or isinstance(layer, bool) or layer <= 1:
            return layer
        return "last" if layer == deep + head else max(1, round(layer * depth / deep))

    def fit_entry(entry: Any) -> Any:
        at = entry.get("at") if isinstance(entry, Mapping) else None
        if not isinstance(at, Mapping) or "layer" not in at:
            return entry
        return {**entry, "at": {**at, "layer": fit(at["layer"])}}

    fitted: dict[str, Any] = {**tree}
    if isinstance(claims := tree.get("claims"), list | tuple):
        fitted["claims"] = [fit_entry(claim) for claim in claims]
    if isinstance(published := tree.get("published"), list | tuple):
        fitted["published"] = [entry for entry in published if fit_entry(entry) == entry]
    if "headline" in tree:
        fitted["headline"] = fit_entry(tree["headline"])
    moved = fitted.get("claims") != (list(claims) if claims is not None else None)
    return fitted, [f"claims about layers are about the same relative depth, not of {deep + head} layers"] * moved


def _fitted(tree: Mapping[str, Any], full: Mapping[str, Any]) -> dict[str, Any]:
    """The tree after overrides, its layers fitted to another depth where the overrides changed it."""
    bases = [each.get("base") for each in (tree, full)]
    one, two = (value_at(base, "model.depth") if isinstance(base, Mapping) else None for base in bases)
    if not (isinstance(one, int) and isinstance(two, int)) or one == two or two < 1 or isinstance(one, bool):
        return dict(full)
    fitted, remarks = _fit_layers(full, one, two)
    earlier = full.get("changed")
    return {**fitted, "changed": [*(earlier if isinstance(earlier, list) else ()), *remarks]} if remarks else fitted


def _resolve(tree: Mapping[str, Any], source: Source, changes: list[Override], seeds: Any, quick: bool) -> Resolved:
    told = _describe_changes(tree, changes)
    if told:
        earlier = tree.get("changed")
        tree = {**tree, "changed": [*(earlier if isinstance(earlier, list) else ()), *told]}
    changed = [files.name_override(change) for change in changes] + ([("seeds", "seeds")] if seeds is not None else [])
    if not quick:
        full, source = _fitted(tree, files.with_overrides(tree, changes, seeds)), source.with_overrides(changed)
        resolved = files.resolve(full, source)
        if resolved.study.quick:  # report a mistake in the quick form now, not when it is first used
            files.check_quick(full, source)
        return resolved
    reduced = _fitted(tree, files.with_overrides(files.quick_form(tree, source), changes, seeds))
    return files.resolve(reduced, source.with_quick(tree.get("quick")).with_overrides(changed), quick=True)


def _parse_overrides(overrides: Any) -> list[Override]:
    if isinstance(overrides, str):
        return [overrides]
    if isinstance(overrides, Mapping):
        return [(str(path), value) for path, value in overrides.items()]
    if isinstance(overrides, Sequence):
        return list(overrides)
    raise StudyError(f"overrides: give a mapping from paths to values or a list of path=value, not {overrides!r}")


def until_settled(most: int = 200, first: int | None = None) -> dict[str, Any]:
    """Seeds for `run` and `compare`: more of them while a claim is open, up to `most` per group.

        >>> gradlab.run("depth", seeds=gradlab.until_settled(most=200), out="runs/depth")

    Every group begins with the `first` seeds (default: those of the study). Further ones are trained in rounds, only in
    the groups of claims that are not settled. Verdicts stay valid, however many rounds there are.
    """
    return {**({} if first is None else {"from": first}), "to": most, "until": "settled"}
