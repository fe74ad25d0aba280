"""What the page offers: every part of a kind by its name and what people call it, and the tasks."""

from __future__ import annotations

from typing import Any

from gradlab.parts import BUILT_IN
from gradlab.web.lessons import lessons
from gradlab.web.limits import PAGES, PARAMETERS, TRAINING, UPLOAD
from gradlab.web.settings import PATHS, Settings, call_setting

KINDS = ("skip", "norm", "init", "activation", "optimizer")
SCALES = {
    "0.1": "0.1",
    "0.5": "0.5",
    "1": "1",
    "1.5": "1.5",
    "2": "2",
    "1/sqrt(depth)": "1/√depth",
    "1/depth": "1/depth",
}
TASK_NAMES = {
    "identity": "identity: copy 64 numbers",
    "circles": "circles: one class around the other",
    "moons": "moons: two half circles",
    "spirals": "spirals: two arms",
    "xor": "XOR: four squares",
    "mnist": "MNIST: 55,000 digits",
    "upload": "your own file…",
}


def offer_choices() -> dict[str, Any]:
    """Everything that the page needs to build its forms."""
    return {
        "fields": [{"name": name, "label": call_setting(name)} for name in PATHS],
        "parts": {kind: _parts(kind) for kind in KINDS},
        "scales": [{"value": value, "label": label} for value, label in SCALES.items()],
        "tasks": TASK_NAMES,
        "defaults": Settings().model_dump(mode="json"),
        "lessons": [lesson.to_json() for lesson in lessons().values()],
        "limits": {"pages": PAGES, "training": TRAINING, "parameters": PARAMETERS, "upload": UPLOAD},
    }


def _parts(kind: str) -> list[dict[str, str]]:
    """Parts of a kind that need no parameter, with the first line of their description."""
    found = []
    for name in BUILT_IN.names(kind):
        part = BUILT_IN.get(kind, name)
        label = part.called or ("none" if name == "none" else name.replace("_", " "))
        found.append({"name": name, "label": label, "summary": part.summary()})
    return sorted(found, key=lambda part: part["name"] != "none")
