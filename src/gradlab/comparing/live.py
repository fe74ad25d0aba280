"""A watch on the disk as it goes: one line per moment, so that a killed job loses nothing and others can follow.

`watch.jsonl` begins with what is watched; every further line is a moment: its step, loss, findings and layers.
"""

from __future__ import annotations

import json
import math
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, Strict

from gradlab.errors import StoreError
from gradlab.runs.store.files import read_regular
from gradlab.runs.store.folder import WATCH
from gradlab.spec.stored import Count, Stored
from gradlab.trials.outcome import LayerTable

FILE, FORMAT = WATCH, 1
Number = float | None
NOTHING_WRONG = "At no probed step is anything wrong that the probe can see."


class Header(Stored):
    """The first line: what is watched, by whom."""

    format: Literal[1]
    pid: Count
    model: str
    every: Count
    sha256: str
    code: str


class LiveFinding(Stored):
    """What was found, as `torch.rules.Finding` writes it."""

    code: str
    words: str


class Line(Stored):
    """A moment, or the end."""

    step: Count
    loss: Number = None
    closed: bool = False
    names: list[str] = Field(default_factory=list)
    layers: list[Annotated[tuple[Count, str, Number], Strict(False)]] | None = None
    """Layer, measure and value; None of a line that is not a probed step."""
    findings: list[LiveFinding] | None = None
    scalars: dict[str, dict[Annotated[str, Field(pattern=r"^\d{1,15}$")], float]] = Field(default_factory=dict)


class LiveFile:
    """Appends lines. An error of the disk is raised; the watch that writes lets go."""

    def __init__(self, folder: Path, header: Mapping[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / FILE
        self._path.write_text("", encoding="utf8")
        self.append({"format": FORMAT, "pid": os.getpid(), **header})

    @property
    def hint(self) -> str:
        """The command that makes a page of what is there."""
        return f"gradlab report {shlex.quote(str(self._path.parent))}"

    def append(self, line: Mapping[str, Any]) -> None:
        """Write one line and flush it."""
        with self._path.open("a", encoding="utf8") as file:
            file.write(json.dumps(line, default=str) + "\n")


@dataclass(frozen=True)
class Live:
    """A watch as its file tells it."""

    folder: Path
    header: Header
    moments: tuple[Line, ...]

    @property
    def alive(self) -> bool:
        """Whether the process that wrote it still runs, on this machine, and has not closed the watch."""
        if self.moments and self.moments[-1].closed:
            return False
        try:
            os.kill(self.header.pid, 0)
        except (OSError, OverflowError):
            return False
        return True

    @property
    def probed(self) -> list[Line]:
        """The lines of probed steps."""
        return [line for line in self.moments if line.layers is not None]

    def layer_table(self) -> LayerTable:
        """The layers of all moments."""
        rows = [(line.step, *row) for line in self.probed for row in line.layers or ()]
        steps, layers, measures, values = zip(*rows, strict=True) if rows else ((), (), (), ())
        numbers = np.array([math.nan if value is None else value for value in values], float)
        return LayerTable(np.array(steps, np.int64), np.array(layers, np.int64), tuple(measures), numbers)

    @property
    def layer_names(self) -> tuple[str, ...]:
        """The names of layers 1, 2, …"""
        return tuple(self.probed[-1].names) if self.probed else ()

    @property
    def findings(self) -> list[LiveFinding]:
        """What was found in all steps up to the latest judgement."""
        judged = [line.findings for line in self.moments if line.findings is not None]
        return list(judged[-1]) if judged else []

    def close(self) -> None:
        """Nothing to remove: it only reads."""

    def curves(self) -> dict[str, dict[int, float]]:
        """The scalars of all lines, by name and step."""
        found: dict[str, dict[int, float]] = {}
        for line in self.moments:
            for name, curve in line.scalars.items():
                found.setdefault(name, {}).update({int(step): value for step, value in curve.items()})
        return found

    def to_json(self) -> dict[str, Any]:
        """The state, without the layers."""
        last = self.probed[-1] if self.probed else None
        return {
            "folder": str(self.folder),
            "watched": self.header.model,
            "alive": self.alive,
            "every": self.header.every,
            "moments": len(self.probed),
            "step": None if last is None else last.step,
            "loss": None if last is None else last.loss,
            "diagnosis": [finding.model_dump() for finding in self.findings],
        }


def is_live(folder: Path) -> bool:
    """Whether a folder holds the file of a watch."""
    return (folder / FILE).is_file()


def read_live(folder: Path) -> Live:
    """Read the file of a watch; a last line that is not whole yet is left out."""
    path = folder / FILE
    try:
        first, *lines = read_regular(path).decode("utf8", "replace").splitlines() or [""]
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror or error}") from None
    try:
        header = Header.fit(json.loads(first))
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{path} is not the file of a watch, or of another version: {error}") from None
    moments: list[Line] = []
    for number, text in enumerate(lines, 2):
        try:
            moments.append(Line.fit(json.loads(text)))
        except (ValueError, RecursionError) as error:
            if number <= len(lines):
                raise StoreError(f"{path} is damaged: line {number}: {error}") from None
    return Live(folder, header, tuple(moments))
