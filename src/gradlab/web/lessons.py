"""The lessons: guided scenes as data files, in `lessons/` and in a folder of the teacher's own.

A lesson exists because its file exists.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import ValidationError

from gradlab.errors import GradlabError, InvalidInput, nearest, shortened
from gradlab.spec import yaml_text
from gradlab.spec.base import Frozen
from gradlab.spec.messages import study_error
from gradlab.web.settings import Settings, read_settings

FOLDER, AFTER = Path(__file__).parent / "lessons", 100
"""Where the lessons that ship are, and the place of one that names none."""


class Lesson(Frozen):
    """A preset with two sentences, a question and its answer."""

    noun: ClassVar[str] = "a lesson"

    name: str
    order: int
    title: str
    text: tuple[str, str]
    question: str
    answer: str
    settings: Settings
    look: Literal["loss", "signal", "delta", "gradient", "dead", "scene", "audit"]
    """Where on the page the answer is seen: `loss`, `signal`, `delta`, `gradient`, `dead`, `scene` or `audit`."""
    speed: float | None = None
    """Steps per second; None: as fast as they come."""


@cache
def lessons(folder: Path | None = None) -> dict[str, Lesson]:
    """All lessons by name, in their order; those of a folder, which may take the name of another, after the others."""
    found = _read(FOLDER)
    return found if folder is None else found | _read(folder)


def _read(folder: Path) -> dict[str, Lesson]:
    if not folder.is_dir():
        raise InvalidInput(f"--lessons {folder}: there is no such folder")
    presets = [_read_lesson(path) for path in sorted(folder.glob("*.yaml"))]
    if not presets:
        raise InvalidInput(f"--lessons {folder}: there is no lesson in it; a lesson is a file NAME.yaml")
    return {lesson.name: lesson for lesson in sorted(presets, key=lambda lesson: lesson.order)}


def _read_lesson(path: Path) -> Lesson:
    """The lesson in a file; its settings are checked as the page's are."""
    try:
        tree = yaml_text.parse(path.read_text(encoding="utf8"), str(path))
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror or error}") from None
    if not isinstance(tree, dict):
        raise InvalidInput(f"{path}: a lesson has a title, two sentences of text, a question, an answer and settings")
    try:
        lesson = Lesson.model_validate({"name": path.stem, "order": AFTER, **tree})
        read_settings(lesson.settings.model_dump(mode="json"))
    except ValidationError as error:
        raise InvalidInput(f"{path}: {study_error(error, tree)}") from None
    except GradlabError as error:
        raise InvalidInput(f"{path}: {error}") from None
    return lesson


TEMPLATE = """# A lesson of the live lab: gradlab lab --lessons {folder}. Fill in what stands in <…>.
title: {title}
text:
  - <one sentence on what the two networks are>
  - <one sentence on what differs>
question: <what is to be found out>
answer: <what is seen, and why>
look: loss  # or signal, delta, gradient, dead, scene, audit: where on the page the answer is seen
settings:
{settings}"""
"""What *Save as lesson* writes."""


def write_lesson(settings: Settings, name: str, folder: str) -> str:
    """The two networks of a page as a lesson, with its sentences left to be written."""
    if settings.task == "upload":
        raise InvalidInput("a lesson holds no data of your own; choose one of the tasks")
    tree = settings.model_dump(mode="json", exclude_defaults=True)
    lines = yaml_text.dump(tree).splitlines()
    body = "\n".join(f"  {line}" for line in lines) + "\n"
    return TEMPLATE.format(folder=folder, title=name, settings=body)


def get_lesson(name: str, folder: Path | None = None) -> Lesson:
    """The lesson of this name."""
    known = lessons(folder)
    if name not in known:
        raise InvalidInput(f"there is no lesson {shortened(name)}{nearest(name, known)}")
    return known[name]
