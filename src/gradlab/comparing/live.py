"""A watch on the disk as it goes: one line per moment, so that a killed job loses nothing and others can follow.

`watch.jsonl` begins with what is watched; every further line is a moment: its step, loss, findings and layers.
"""

from __future__ import annotations

import json
import math
import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gradlab.comparing.saving import save_recorded
from gradlab.errors import StoreError
from gradlab.report.result import Result
from gradlab.spec.code import Code
from gradlab.trials.outcome import LayerTable

FILE, RUN, FORMAT = "watch.jsonl", "run", 1


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
    header: Mapping[str, Any]
    moments: tuple[Mapping[str, Any], ...]

    @property
    def alive(self) -> bool:
        """Whether the process that wrote it still runs, on this machine, and has not closed the watch."""
        if self.moments and self.moments[-1].get("closed"):
            return False
        try:
            os.kill(int(self.header["pid"]), 0)
        except (OSError, ValueError, KeyError):
            return False
        return True

    @property
    def probed(self) -> list[Mapping[str, Any]]:
        """The lines of probed steps."""
        return [line for line in self.moments if "layers" in line]

    def layer_table(self) -> LayerTable:
        """The layers of all moments."""
        rows = [(line["step"], *row) for line in self.probed for row in line["layers"]]
        steps, layers, measures, values = zip(*rows, strict=True) if rows else ((), (), (), ())
        numbers = np.array([math.nan if value is None else value for value in values], float)
        return LayerTable(np.array(steps, np.int64), np.array(layers, np.int64), tuple(measures), numbers)

    @property
    def layer_names(self) -> tuple[str, ...]:
        """The names of layers 1, 2, …"""
        return tuple(self.probed[-1]["names"]) if self.probed else ()

    @property
    def findings(self) -> list[str]:
        """What was found in all steps up to the latest judgement."""
        judged = [line["findings"] for line in self.moments if "findings" in line]
        return list(judged[-1]) if judged else []

    def close(self) -> None:
        """Nothing to remove: it only reads."""

    def curves(self) -> dict[str, dict[int, float]]:
        """The scalars of all lines, by name and step."""
        found: dict[str, dict[int, float]] = {}
        for line in self.moments:
            for name, curve in (line.get("scalars") or {}).items():
                found.setdefault(name, {}).update({int(step): float(value) for step, value in curve.items()})
        return found

    def to_json(self) -> dict[str, Any]:
        """The state, without the layers."""
        last: Mapping[str, Any] = self.probed[-1] if self.probed else {}
        return {
            "folder": str(self.folder),
            "watched": self.header.get("model"),
            "alive": self.alive,
            "every": self.header.get("every"),
            "moments": len(self.probed),
            "step": last.get("step"),
            "loss": last.get("loss"),
            "diagnosis": self.findings,
        }


def is_live(folder: Path) -> bool:
    """Whether a folder holds the file of a watch."""
    return (folder / FILE).is_file()


def read_live(folder: Path) -> Live:
    """Read the file of a watch; a last line that is not whole yet is left out."""
    lines: list[Mapping[str, Any]] = []
    try:
        text = (folder / FILE).read_text(encoding="utf8")
    except OSError as error:
        raise StoreError(f"{folder / FILE}: {error.strerror or error}") from None
    for line in text.splitlines():
        try:
            lines.append(json.loads(line))
        except ValueError:
            break
    if not lines or not isinstance(lines[0], dict) or lines[0].get("format") != FORMAT:
        raise StoreError(f"{folder / FILE} is not the file of a watch, or of another version")
    return Live(folder, lines[0], tuple(lines[1:]))


def save_live(folder: Path, *, figures: bool = True) -> Result:
    """Make a run of what a watch has left so far, in `run` below its folder; an earlier one there is replaced."""
    live = read_live(folder)
    out = folder / RUN
    if (out / "plan.json").is_file():
        shutil.rmtree(out)
    if not live.probed:
        raise StoreError(f"{folder}: the watch has not recorded a step yet")
    name = str(live.header["model"])
    code = Code(function=name, sha256=str(live.header["sha256"]), text=str(live.header["code"]))
    remarks: Sequence[str] = live.findings or ["At no probed step is anything wrong that the probe can see."]
    return save_recorded(
        out,
        code,
        {"every": live.header["every"], "steps": live.probed[-1]["step"] + 1},
        live,
        live.curves(),
        question=f"What happens inside {name} while it trains?",
        remarks=remarks,
        files={},
        figures=figures,
    )
