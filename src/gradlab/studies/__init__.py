"""The built-in studies: YAML files in this folder, with the published numbers they are compared with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gradlab.errors import StudyError, nearest, shortened
from gradlab.spec import yaml_text

FOLDER = Path(__file__).parent


COLLECTIONS = FOLDER / "collections.yaml"


@dataclass(frozen=True)
class Collection:
    """Several studies under one name and question, run one after the other."""

    name: str
    question: str
    studies: tuple[str, ...]


def names() -> list[str]:
    """A study exists because its file exists."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml") if path != COLLECTIONS)


@cache
def collections() -> dict[str, Collection]:
    """The built-in collections, by name."""
    found = yaml_text.parse(COLLECTIONS.read_text(encoding="utf8"), str(COLLECTIONS))
    return {name: Collection(name, each["question"], tuple(each["studies"])) for name, each in found.items()}


def locate(study: str) -> Path:
    """The file of a built-in study, or a file of the user's; a `StudyError` where there is neither."""
    if study in names():
        return FOLDER / f"{study}.yaml"
    if study in collections():
        raise StudyError(f"{study} is a collection; run one of its studies: {', '.join(collections()[study].studies)}")
    path = Path(study)
    try:
        if path.is_dir():
            raise StudyError(f"{study} is a folder; give a study file in it, or a built-in name: {', '.join(names())}")
        if path.suffix in (".yaml", ".yml") or path.is_file():
            return path
    except (OSError, ValueError):  # a name that no file can have
        pass
    raise StudyError(
        f"there is no built-in study {shortened(study)} and no file of that name; "
        f"built in: {', '.join(names())}{nearest(study, names())}"
    )
