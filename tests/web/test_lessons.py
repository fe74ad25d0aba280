"""Lessons of one's own: a folder of files, checked before a class sees them, and saved from the page."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import gradlab
from lab_server import served

from gradlab.errors import InvalidInput
from gradlab.web.lessons import get_lesson, lessons, write_lesson
from gradlab.web.settings import read_settings

ROOT = Path(__file__).parents[2]


def test_the_example_is_a_lesson_beside_the_built_in_ones() -> None:
    folder = ROOT / "examples/lessons"
    found = lessons(folder)
    assert list(found)[:8] == list(lessons())
    assert get_lesson("highway", folder).settings.b.skip == "identity"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("look: delta", "look: nowhere"),
        ("question:", "questoin:"),
        ("  task: spirals", "  task: spiral"),
        ("title: Where does δ stop?", "title: [a"),
    ],
)
def test_a_mistake_in_a_lesson_is_named_with_its_file(change: str, words: str, tmp_path: Path) -> None:
    text = (ROOT / "examples/lessons/highway.yaml").read_text()
    (tmp_path / "broken.yaml").write_text(text.replace(change, words))
    with pytest.raises(InvalidInput, match=r"broken\.yaml"):
        lessons(tmp_path)


def test_a_page_is_saved_as_a_lesson_that_can_be_opened(tmp_path: Path) -> None:
    with served(tmp_path) as lab, lab.page() as client:
        asked = {"settings": {"b": {"skip": "identity"}}, "name": "mine"}
        saved = client.post("/api/lesson", json=asked)
        assert saved.json() == {"file": "lessons/mine.yaml", "command": "gradlab lab --lessons lessons --lesson mine"}
        assert client.post("/api/lesson", json={**asked, "name": "../x"}).status_code == 422
    assert get_lesson("mine", tmp_path / "lessons").settings.b.skip == "identity"
    listed = gradlab("lab", "--lessons", "lessons", "--check", cwd=tmp_path)
    assert listed.returncode == 0
    assert listed.stdout.splitlines()[-1].startswith("mine:")
    assert gradlab("lab", "--lessons", "nowhere", "--check", cwd=tmp_path).returncode == 2


def test_uploaded_data_are_no_part_of_a_lesson() -> None:
    with pytest.raises(InvalidInput, match="data of your own"):
        write_lesson(read_settings({}).model_copy(update={"task": "upload"}), "x", "lessons")
