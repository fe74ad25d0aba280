"""Studies as an agent hands them in: read as data, inside the project's folder, within limits; nothing is executed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

from gradlab import studies
from gradlab.errors import InvalidInput, nearest, shortened
from gradlab.plans.plan import Plan
from gradlab.plans.tuning import plan_study
from gradlab.spec.files import DATA_PATHS, Resolved, to_yaml
from gradlab.spec.study import Interval, RandomSearch, expand_range
from gradlab.studies.loading import load_text

LONGEST, MOST_GROUPS, MOST_TRIALS, MOST_FILES = 100_000, 400, 20_000, 200
MOST_PARAMETERS, MOST_BYTES, MOST_LAYERS = 5_000_000, 2**31, 1_000
CODE_FIELDS = ("parts", "code")
ARM_NAME = re.compile(r"[^\s]{1,40}(?: [^\s]{1,40}){0,3}")
"""Names go into sentences that an agent reads: four words are a name, more could be an instruction."""
JUDGED = ("claims", "answers", "published", "levels", "sequel", "source")
"""Fields that only a confirmed study has."""


class Refused(InvalidInput):
    """A call that is refused: a code for programs, and what to do instead."""

    def __init__(self, code: str, message: str, do: str) -> None:
        super().__init__(message)
        self.code, self.do = code, do


def inside(root: Path, path: str) -> Path:
    """A path inside the project's folder, links resolved; anything else is refused."""
    try:
        found = (root / path).resolve()
        outside = not found.is_relative_to(root)
    except (OSError, ValueError, RuntimeError):
        outside = True
    if outside:
        raise Refused("outside", f"{shortened(path)} is not inside the project's folder", "name a file inside it")
    return found


class StudyReader:
    """Reads the studies of one project."""

    def __init__(self, root: Path, allow_code: bool) -> None:
        self.root, self.allow_code = root, allow_code

    def files(self) -> list[str]:
        """The study files in the project's folder."""
        found = (path for pattern in ("*.yaml", "*.yml") for path in self.root.glob(pattern))
        return sorted(path.name for path in found if path.is_file() and path.resolve().is_relative_to(self.root))[
            :MOST_FILES
        ]

    def text(self, study: str) -> tuple[str, str]:
        """YAML and name of a study: built in, a file of the project, or the text itself."""
        if len(study) > LONGEST:
            raise Refused("too_large", f"the study has {len(study):,} characters", f"at most {LONGEST:,}")
        if "\n" in study.strip() or ":" in study:
            return study, "study"
        known = (*studies.names(), *self.files())
        if study in studies.names():
            return studies.locate(study).read_text(encoding="utf8"), study
        path = inside(self.root, study)
        if path.suffix not in (".yaml", ".yml") or not path.is_file():
            hint = f"{shortened(study)} is no study{nearest(study, known)}"
            raise Refused("no_study", hint, "give a name from list_studies, a .yaml file of the project, or YAML text")
        if path.stat().st_size > LONGEST:
            raise Refused("too_large", f"{study} has {path.stat().st_size:,} bytes", f"at most {LONGEST:,}")
        return path.read_text(encoding="utf8"), study

    def load(
        self, study: str, overrides: Mapping[str, Any], claims: Sequence[Mapping[str, Any]] | None = None
    ) -> Resolved:
        """The study, checked; with other claims, or (an empty list) with none."""
        text, name = self.text(study)
        resolved = self._load(text, name, overrides, claims)
        names = [*(resolved.study.arms or {}), *resolved.study.labels.values()]
        odd = next((label for label in names if not ARM_NAME.fullmatch(label)), None)
        if odd is not None and name not in studies.names():
            raise Refused("long_name", f"the name {shortened(odd)} is a sentence", "name arms in at most four words")
        return resolved

    def _load(
        self,
        text: str,
        name: str,
        overrides: Mapping[str, Any],
        claims: Sequence[Mapping[str, Any]] | None,
    ) -> Resolved:
        def check(tree: Mapping[str, Any]) -> Mapping[str, Any]:
            self._refuse_foreign(tree)
            _refuse_many(tree)
            if claims is None:
                return tree
            kept = {key: value for key, value in tree.items() if key not in JUDGED}
            return {**kept, **({"claims": list(claims)} if claims else {})}

        for path, value in overrides.items():
            self._refuse_foreign({path: value})
        return load_text(text, name, self.root, overrides, check)

    def plan(self, study: str, overrides: Mapping[str, Any], claims: Sequence[Mapping[str, Any]] | None = None) -> Plan:
        """The same with every trial, within what a server takes."""
        return self._plan(self.load(study, overrides, claims))

    def plan_frozen(self, text: str) -> Plan:
        """The plan of a study from the ledger, whose names were checked before."""
        return self._plan(self._load(text, "frozen study", {}, None))

    def _plan(self, resolved: Resolved) -> Plan:
        trials = len(resolved.groups) * len(resolved.study.trial_seeds)
        if trials > MOST_TRIALS:
            raise Refused("too_large", f"{trials:,} trials", f"at most {MOST_TRIALS:,} here; `gradlab run` takes more")
        deepest = max((g.network.model.depth for g in resolved.groups if g.network is not None), default=0)
        if deepest > MOST_LAYERS:
            raise Refused("too_large", f"{deepest:,} layers", f"at most {MOST_LAYERS:,} here; `gradlab run` takes more")
        plan = plan_study(resolved)
        largest = max((g.known_cost.parameters for g in plan.groups if g.known_cost is not None), default=0)
        if largest > MOST_PARAMETERS or plan.bytes > MOST_BYTES:
            size = f"{largest:,} parameters, {plan.bytes / 2**20:,.0f} MiB per trial"
            raise Refused("too_large", size, f"at most {MOST_PARAMETERS:,} here; `gradlab run` takes more")
        return plan

    def _refuse_foreign(self, tree: Any) -> None:
        """Refuse code, and files outside the project."""
        for key, value in _items(tree):
            last = key.rpartition(".")[2]
            if last in CODE_FIELDS and value and (last == "code" or not self.allow_code):
                do = "leave it out; only a person who starts the server with --allow-code can allow part files"
                raise Refused("code_not_allowed", f"the study names code ({key})", do)
            if last in (*DATA_PATHS, "parts"):
                for path in value if isinstance(value, list) else [value]:
                    for single in path if isinstance(path, list) else [path]:
                        if isinstance(single, str):
                            inside(self.root, single)


def text_of(resolved: Resolved) -> str:
    """A study as YAML."""
    return to_yaml(resolved.study)


def _items(tree: Any) -> Iterator[tuple[str, Any]]:
    """Every key of a nested tree with its value."""
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield str(key), value
            yield from _items(value)
    elif isinstance(tree, list | tuple):
        for value in tree:
            yield from _items(value)


def _refuse_many(tree: Mapping[str, Any]) -> None:
    """Refuse a grid or a search that is too large before it is written out."""
    sizes = []
    for section in ("axes", "tune"):
        for path, values in _items(tree.get(section) or {}):
            if "." in path or section == "axes":
                sizes.append(_count(values))
    arms = tree.get("arms")
    if prod(sizes) * (len(arms) if isinstance(arms, Mapping) else 1) > MOST_GROUPS:
        raise Refused("too_large", f"{prod(sizes):,} combinations", f"at most {MOST_GROUPS}; `gradlab run` takes more")


def _count(values: Any) -> int:
    """How many values a list or a rule has; 1 of what is no axis, which is refused later with its reason."""
    if isinstance(values, list):
        return max(len(values), 1)
    if isinstance(values, Mapping) and not isinstance(values, Interval | RandomSearch):
        try:
            return max(len(expand_range(values)), 1)
        except (InvalidInput, ValueError):
            return 1
    return 1
