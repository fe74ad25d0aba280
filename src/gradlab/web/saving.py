"""A page as a study file: `gradlab run` of it gives the bits that the page showed."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

from gradlab.errors import InvalidInput, StoreError, shortened
from gradlab.runs.store.atomic import write_bytes
from gradlab.spec.base import NAME_PATTERN, PATTERNS
from gradlab.spec.yaml_text import dump
from gradlab.web.planning import study_tree
from gradlab.web.settings import Settings
from gradlab.web.uploads import Uploads


def write_study(settings: Settings, uploads: Uploads, data_file: str = "") -> str:
    """The study as YAML; an uploaded file is called `data_file` in it."""
    tree = study_tree(settings, uploads)
    del tree["name"]  # a file's name is the study's
    if settings.task == "upload":
        tree["base"]["data"]["path"] = data_file or uploads.get(settings.upload).name
    return f"# Saved from the live lab. More seeds: gradlab run FILE --seeds 10\n{dump(tree)}"


def save_study(settings: Settings, uploads: Uploads, folder: Path, name: Any) -> dict[str, str]:
    """Write NAME.yaml (and a copy of uploaded data) to the folder; never over another file."""
    if not isinstance(name, str) or re.fullmatch(NAME_PATTERN, name) is None or name.endswith((".yaml", ".yml")):
        raise InvalidInput(f"the name {shortened(name)} cannot be used; {PATTERNS[NAME_PATTERN]}")
    target, text = folder / f"{name}.yaml", ""
    if settings.task == "upload":
        source = uploads.get(settings.upload).path
        text = write_study(settings, uploads, f"{name}{source.suffix}")
        _copy(source, folder / f"{name}{source.suffix}")
    else:
        text = write_study(settings, uploads)
    if target.exists() and target.read_text(encoding="utf8", errors="replace") != text:
        raise InvalidInput(f"{name}.yaml is already there with other content; choose another name")
    write_bytes(target, text.encode())
    return {"file": target.name, "command": f"gradlab run {target.name}", "study": text}


def _copy(source: Path, target: Path) -> None:
    if target.exists():
        if target.read_bytes() != source.read_bytes():
            raise InvalidInput(f"{target.name} is already there with other content; choose another name")
        return
    try:
        shutil.copyfile(source, target)
    except OSError as error:
        raise StoreError(f"cannot write {target.name}: {error.strerror or error}") from None
