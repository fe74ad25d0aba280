"""The built-in studies: YAML files in this folder, with the published numbers to compare with.

`index/` holds the collections that run under one name, the write-ups with their confounds, and the verdicts of the full
runs that ship with the package.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradlab.errors import StudyError, offer, shortened

if TYPE_CHECKING:
    from gradlab.analysis.claims.numbers import Comparison
    from gradlab.spec.claims import Claim

FOLDER = Path(__file__).parent
INDEX = FOLDER / "index"
KEPT = INDEX / "verdicts.json"
TIMES = INDEX / "times.json"


@dataclass(frozen=True)
class Collection:
    """Several studies under one name and question, run one after the other."""

    name: str
    question: str
    studies: tuple[str, ...]


@dataclass(frozen=True)
class Confound:
    """Something that a write-up confounds, and the claims (study -> their texts) that show it."""

    what: str
    shown: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Conclusion:
    """What a write-up concludes, in our words, with the claims (study -> their texts) that speak for it or limit it."""

    says: str
    rests_on: Mapping[str, tuple[str, ...]]
    limited_by: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class WriteUp:
    """A public write-up: studies that run it as published, studies that separate its causes, and its conclusions."""

    name: str
    title: str
    published: tuple[str, ...]
    controlled: tuple[str, ...]
    confounds: tuple[Confound, ...]
    conclusions: tuple[Conclusion, ...]
    unfair: tuple[str, ...] = ()
    """Studies that are expected to fail their audit."""
    most_seeds: Mapping[str, int] = field(default_factory=dict)
    """Study -> seeds per group at most where they are added until its claims are settled; chosen before the results."""

    @property
    def studies(self) -> tuple[str, ...]:
        """All studies, published first."""
        return (*self.published, *self.controlled)


def names() -> list[str]:
    """Return the names of the built-in studies. A study exists because its file exists."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def question(name: str) -> str:
    """Return the question of a built-in study: all of `gradlab list` should take less time than one study to check."""
    import yaml

    events = yaml.parse((FOLDER / f"{name}.yaml").read_text(encoding="utf8"))
    scalars = (event.value for event in events if isinstance(event, yaml.ScalarEvent))
    return next(next(scalars) for value in scalars if value == "question")


@cache
def collections() -> dict[str, Collection]:
    """Return the built-in collections by name."""
    return {
        name: Collection(name, each["question"], tuple(each["studies"])) for name, each in _read("collections").items()
    }


@cache
def writeups() -> dict[str, WriteUp]:
    """Return the write-ups by name."""
    return {
        name: WriteUp(
            name,
            each["title"],
            tuple(each["published"]),
            tuple(each["controlled"]),
            tuple(Confound(c["what"], _claims(c["shown"])) for c in each["confounds"]),
            tuple(
                Conclusion(c["says"], _claims(c["rests_on"]), _claims(c.get("limited_by", {})))
                for c in each["conclusions"]
            ),
            tuple(each.get("unfair", ())),
            each["most_seeds"],
        )
        for name, each in _read("writeups").items()
    }


@cache
def gallery() -> WriteUp:
    """Return the gallery: public experiments that everybody knows, each a study of its own."""
    found = _read("gallery")
    return WriteUp("gallery", found["title"], tuple(found["most_seeds"]), (), (), (), (), found["most_seeds"])


@cache
def gallery_notes() -> Mapping[str, str]:
    """Return study of the gallery -> what was found beside its verdicts."""
    return dict(_read("gallery")["notes"])


def _claims(by_study: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    return {study: tuple(texts) for study, texts in by_study.items()}


def _read(name: str) -> dict[str, Any]:
    from gradlab.spec import yaml_text

    path = INDEX / f"{name}.yaml"
    found: dict[str, Any] = yaml_text.parse(path.read_text(encoding="utf8"), str(path))
    return found


def claim_key(claim: Claim) -> str:
    """Hash a claim, so that a stored verdict applies to exactly this claim; fields it does not use have no part."""
    from gradlab.spec.base import content_id

    return content_id(claim.model_dump(mode="json", exclude_defaults=True))


def number_key(row: Comparison) -> str:
    """Hash a published number with its place, so that a stored answer applies to exactly this number."""
    from gradlab.analysis.estimate import where
    from gradlab.spec.base import content_id

    return content_id([row.group, where(row.metric, row.at), row.published.text, row.origin])


@cache
def kept_verdicts() -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    """Return study -> key of a claim or number -> what the full run that ships with the package found."""
    if not KEPT.is_file():
        return {}
    found: dict[str, Any] = json.loads(KEPT.read_text(encoding="utf8"))
    return found


@cache
def run_times() -> Mapping[str, float]:
    """Return study -> estimated seconds on one core."""
    if not TIMES.is_file():
        return {}
    found: dict[str, float] = json.loads(TIMES.read_text(encoding="utf8"))
    return found


def topics() -> dict[str, list[str]]:
    """Return the built-in studies by topic: those of each write-up, and those that test the theory."""
    found = {writeup.title: list(writeup.studies) for writeup in writeups().values()}
    found[gallery().title] = list(gallery().studies)
    held = {study for each in found.values() for study in each}
    rest = [name for name in names() if name not in held]
    return {**found, **({"Theory beside measurement": rest} if rest else {})}


def locate(study: str) -> Path:
    """Return the path of a built-in study or of a user's file; a `StudyError` if there is neither."""
    if study in names():
        return FOLDER / f"{study}.yaml"
    if study in collections():
        raise StudyError(f"{study} is a collection; run one of its studies: {', '.join(collections()[study].studies)}")
    path = Path(study)
    try:
        if path.is_dir():
            raise StudyError(f"{study} is a folder; give a study file, or a built-in name: {', '.join(names())}")
        if path.suffix in (".yaml", ".yml") or path.is_file():
            return path
    except (OSError, ValueError):  # not a valid file name
        pass
    raise StudyError(f"there is no built-in study {shortened(study)} and no such file{offer(study, names())}")
