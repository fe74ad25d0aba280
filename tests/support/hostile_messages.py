"""Requests to the lab as no page of it would send them."""

from __future__ import annotations

import json
import random
from typing import Any
from urllib.parse import quote

from gradlab.web.settings import Settings

RAW = (
    "NaN", "Infinity", "-Infinity", "1" * 40, "-" + "9" * 40, "1" * 5000, "1e400", "-0.0", "null", "true", "[]", "[1]",
    "{}", '{"kind": "relu"}', '""', '"\\ud800"', '"\\udfff\\ud800"', '"\\u0000"', '"../../x"', '"x"', "0", "-1", "1.5",
    "1e-320", "[[[]]]", '"none"', '"1/depth"', '"all"', '"upload"', '"full"', '"' + "a" * 3000 + '"', "[" * 3000,
    '{"a": ', "",
)  # fmt: skip
"""Values as they stand in the text of a message."""
ACTIONS = ("play", "pause", "step", "speed", "rewind", "change", "\udc80", "x", "..", "a b")
RUN_ACTIONS = ("check", "stop", "aside", "compare", "x")
NAMES = ("a.csv", "a.npz", "a.txt", "", "../a.csv", "\x00.csv", "a" * 400 + ".csv", "é.npz")
FILES = (
    b"", b"x,y\n1,0\n2,1\n", b"x,y\n1,a\n", b"x,y\n", b"\xff\xfe", b"PK\x03\x04", b"x,x\n1,2\n",
    b"x,y\n,\n", b"\x00" * 50,
    b"x,y\n1e999,0\nnan,1\n", b'"',
)  # fmt: skip

Message = tuple[str, bytes]
"""Path and body of a POST."""


def make_message(rng: random.Random, session: str) -> Message:
    """A message of any kind that the lab takes, with something wrong in it more often than not."""
    kind = rng.choice(("settings", "settings", "settings", "body", "action", "runs", "upload"))
    if kind == "settings":
        path = rng.choice(("/api/sessions", "/api/study", f"/api/sessions/{session}/change"))
        extra = f', "name": {rng.choice(RAW)}' if rng.random() < 0.3 else ""
        return path, f'{{"settings": {_settings(rng)}, "at": {rng.choice(RAW[:10])}{extra}}}'.encode()
    if kind == "body":
        path = rng.choice(("/api/sessions", "/api/study", f"/api/sessions/{session}/change", "/api/runs/compare"))
        return path, rng.choice(RAW).encode()
    if kind == "action":
        action = quote(rng.choice(ACTIONS), errors="surrogateescape")
        return f"/api/sessions/{session}/{action}", f'{{"speed": {rng.choice(RAW)}}}'.encode()
    if kind == "runs":
        fields = ", ".join(f'"{name}": {rng.choice(RAW)}' for name in ("study", "run", "first", "second", "seeds"))
        return f"/api/runs/{rng.choice(RUN_ACTIONS)}", f"{{{fields}}}".encode()
    return f"/api/upload?name={quote(rng.choice(NAMES))}", rng.choice(FILES)


def _settings(rng: random.Random) -> str:
    """Small settings with some of their values replaced."""
    small = {"depth": 2, "width": 4, "batch": 8}
    tree: dict[str, Any] = Settings.model_validate({"a": small, "b": small, "steps": 3}).model_dump(mode="json")
    spots = [("", name) for name in tree] + [(arm, name) for arm in ("a", "b") for name in tree["a"]]
    written = {(arm, name): json.dumps(tree[arm][name] if arm else tree[name]) for arm, name in spots}
    for spot in rng.sample(spots, rng.choice((0, 1, 1, 2, 3))):
        written[spot] = rng.choice(RAW)
    arms = {
        arm: "{" + ", ".join(f'"{name}": {written[own, name]}' for own, name in spots if own == arm) + "}"
        for arm in ("a", "b")
        if written["", arm] == json.dumps(tree[arm])
    }
    fields = [f'"{name}": {arms.get(name, written["", name])}' for arm, name in spots if not arm]
    return "{" + ", ".join(fields) + "}"
