"""The lessons: guided scenes as data files in `lessons/`. A lesson exists because its file exists."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import ClassVar

from gradlab.errors import InvalidInput, nearest, shortened
from gradlab.spec import yaml_text
from gradlab.spec.base import Frozen
from gradlab.web.settings import Settings

FOLDER = Path(__file__).parent / "lessons"


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
    look: str
    """Where on the page the answer is seen: `loss`, `signal`, `delta`, `gradient`, `dead`, `scene` or `audit`."""
    speed: float | None = None
    """Steps per second; None: as fast as they come."""


@cache
def lessons() -> dict[str, Lesson]:
    """All lessons by name, in their order."""
    trees = {path.stem: yaml_text.parse(path.read_text(encoding="utf8"), str(path)) for path in FOLDER.glob("*.yaml")}
    presets = [Lesson(name=name, **tree) for name, tree in trees.items()]
    return {lesson.name: lesson for lesson in sorted(presets, key=lambda lesson: lesson.order)}


def get_lesson(name: str) -> Lesson:
    """The lesson of this name."""
    known = lessons()
    if name not in known:
        raise InvalidInput(f"there is no lesson {shortened(name)}{nearest(name, known)}")
    return known[name]
