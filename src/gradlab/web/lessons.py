"""The lessons: guided scenes as data files in `lessons/`. A lesson exists because its file exists."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gradlab.errors import InvalidInput, nearest, shortened
from gradlab.spec import yaml_text
from gradlab.web.settings import Settings, read_settings

FOLDER = Path(__file__).parent / "lessons"


@dataclass(frozen=True)
class Lesson:
    """A preset with two sentences, a question and its answer."""

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

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return {**asdict(self), "settings": self.settings.model_dump(mode="json")}


@cache
def lessons() -> dict[str, Lesson]:
    """All lessons by name, in their order."""
    found = [_read(path) for path in FOLDER.glob("*.yaml")]
    return {lesson.name: lesson for lesson in sorted(found, key=lambda lesson: lesson.order)}


def get_lesson(name: str) -> Lesson:
    """The lesson of this name."""
    known = lessons()
    if name not in known:
        raise InvalidInput(f"there is no lesson {shortened(name)}{nearest(name, known)}")
    return known[name]


def _read(path: Path) -> Lesson:
    tree = yaml_text.parse(path.read_text(encoding="utf8"), str(path))
    settings = read_settings(tree.pop("settings"))
    return Lesson(name=path.stem, settings=settings, text=tuple(tree.pop("text")), **tree)
