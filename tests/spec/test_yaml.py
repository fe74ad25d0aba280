from __future__ import annotations

import pytest

from gradlab.errors import StudyError
from gradlab.spec.yaml_text import dump, parse


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 1e-3),
        ("3E4", 3e4),
        ("-1.5e+2", -150.0),
        (".5", 0.5),
        ("1.", 1.0),
        ("12", 12),
        ("none", "none"),
        ("1/sqrt(depth)", "1/sqrt(depth)"),
        ("2020-01-01", "2020-01-01"),
        ("e5", "e5"),
        ("true", True),
        ("null", None),
        ("[1e-3, a]", [1e-3, "a"]),
    ],
)
def test_plain_values_are_parsed_as_expected(text: str, value: object) -> None:
    found = parse(text, "here")
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\na: 2", "line 2, column 1: the key 'a' is duplicated"),
        ("a: &x 1\nb: *x", "line 2.*aliases are not accepted"),
        ("a: [1, 2", "line 1"),
        ("a: !!python/object/apply:os.system [ls]", "a tag .* is not accepted"),
        ("? [1, 2]\n: 3", "a key must be text or a number"),
        ("a: 'x", "line 1"),
        ("[" * 5000, "nested too deeply"),
        ("\x00", "here"),
        ("a: " + "x" * 1_100_000, "longer than"),
    ],
)
def test_invalid_yaml_is_refused_with_its_position(text: str, message: str) -> None:
    with pytest.raises(StudyError, match=message):
        parse(text, "here")


def test_dumped_yaml_can_be_parsed() -> None:
    value = {"a": {"b": [1, 2.5, "x"]}, "rows": [{"k": 1}, {"k": 2}], "lr": 1e-3, "big": 1e30, "text": "ja: nein"}
    assert parse(dump(value), "here") == value
