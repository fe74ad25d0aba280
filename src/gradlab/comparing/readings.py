"""Read the numbers of a training from what it leaves: its output, files, TensorBoard folders, MLflow stores."""

from __future__ import annotations

import csv
import json
import math
import re
import sqlite3
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from gradlab.comparing.channel import STEPS
from gradlab.errors import InvalidInput, described

Curves = dict[str, dict[int, float]]
"""Name -> step -> number. Numbers without a step are counted from 1."""
Take = Literal["last", "min", "max"]
NUMBER = r"[-+]?(?:\d[\d_]*\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|nan|inf(?:inity)?)"
KEPT = 64 * 1024
"""Characters of the beginning and of the end of an output that are kept."""
MOST_NAMES = 60
"""Numbers by name that one trial may have; further ones are left out."""


@dataclass(frozen=True)
class MetricRule:
    """Which number of a training is compared, and where it stands."""

    name: str
    pattern: str | None = None
    """A regular expression with one group, searched in every line of the output; None: by its name."""
    take: Take = "last"
    """Of several matches the last, the smallest or the largest; all of them are the trial's curve."""
    source: str | None = None
    """A file or folder that the command writes; `{seed}`, `{arm}`, `{out}` and settings are filled in."""

    @staticmethod
    def parse(text: str | None, take: str = "last", source: str | None = None) -> MetricRule:
        """`val_loss` by its name, or an expression such as `val_bpb:\\s+(\\S+)`, named by its first word."""
        if take not in ("last", "min", "max"):
            raise InvalidInput(f"take: {take!r} is not known; accepted: last, min, max")
        text = text or "loss"
        if re.fullmatch(r"[\w./-]+", text):
            return MetricRule(text.replace("/", "."), None, take, source)  # type: ignore[arg-type]
        try:
            found = re.compile(text)
        except re.error as error:
            raise InvalidInput(f"metric: {text!r} is not a regular expression: {error}") from None
        if found.groups != 1:
            raise InvalidInput(
                f"metric: {text!r} needs exactly one group around the number, such as 'val_loss: (\\S+)'; it has "
                f"{found.groups}"
            )
        words = [*found.groupindex, *re.findall(r"[A-Za-z]\w+", re.sub(r"\\.|\(.*?\)|\[.*?\]", " ", text)), "metric"]
        return MetricRule(words[0], text, take, source)  # type: ignore[arg-type]

    @cached_property
    def expression(self) -> re.Pattern[str]:
        """What is searched in every line."""
        named = rf"(?<![\w.]){re.escape(self.name)}[\"']?\s*[:=]?\s*({NUMBER})"
        return re.compile(self.pattern or named, 0 if self.pattern else re.IGNORECASE)

    def chosen(self, values: Iterable[float]) -> float:
        """The number of a trial among all that were found."""
        numbers = list(values)
        if self.take == "last" or any(map(math.isnan, numbers)):
            return numbers[-1]
        return min(numbers) if self.take == "min" else max(numbers)


def to_number(text: str) -> float | None:
    """A number as logs print it: `0.31`, `93.1%`, `1_000`, `nan`; None of anything else."""
    try:
        return float(text.strip().rstrip("%,;:)]}"))
    except ValueError:
        return None


def add_line(curves: Curves, line: Mapping[str, Any], order: int | None = None) -> None:
    """Add the numbers of one line of JSON, or of one row; under its step if it says one."""
    when = next((line[key] for key in STEPS if _is_number(line.get(key))), order)
    for name, value in line.items():
        number = value if _is_number(value) else to_number(value) if isinstance(value, str) else None
        short = str(name).replace("/", ".")
        if number is None or name in STEPS or not 0 < len(short) <= 80 or not short.isprintable():
            continue
        if short in curves or len(curves) < MOST_NAMES:
            own = curves.setdefault(short, {})
            own[_next_step(own) if when is None else int(when)] = float(number)


def _next_step(curve: dict[int, float]) -> int:
    """The step after the last; the largest is searched for only where steps have come out of order."""
    last = next(reversed(curve.keys()), 0)
    return last + 1 if last + 1 not in curve else max(curve) + 1


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class Output:
    """What a command prints, read as it comes: the numbers of the rule, and the beginning and the end of the text."""

    def __init__(self, rule: MetricRule) -> None:
        self._rule = rule
        self._rest = b""
        self._begin: list[str] = []
        self._end: list[str] = []
        self._sizes = [0, 0]
        self._dropped = 0
        self.curves: Curves = {}

    def feed(self, piece: bytes) -> None:
        """Take a piece; lines end with a line feed, or with the carriage return of a progress bar."""
        *lines, self._rest = re.split(rb"[\r\n]+", self._rest + piece)
        for line in lines:
            self._take(line.decode("utf8", "replace"))

    def close(self) -> None:
        """Take what stands after the last line feed."""
        self.feed(b"\n")

    def _take(self, line: str) -> None:
        if not line.strip():
            return
        self._keep(line[:KEPT])
        if line.lstrip().startswith("{"):
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                found = None
            if isinstance(found, dict):
                add_line(self.curves, found)
                return
        for match in self._rule.expression.finditer(line):
            number = to_number(match.group(1) or "")
            if number is not None:
                own = self.curves.setdefault(self._rule.name, {})
                own[_next_step(own)] = number

    def _keep(self, line: str) -> None:
        part = 0 if self._sizes[0] < KEPT else 1
        (self._begin, self._end)[part].append(line)
        self._sizes[part] += len(line) + 1
        while self._sizes[1] > KEPT:
            self._sizes[1] -= len(self._end.pop(0)) + 1
            self._dropped += 1

    @property
    def lines(self) -> list[str]:
        """The lines that were kept."""
        gap = [f"… {self._dropped:,} lines were not kept …"] if self._dropped else []
        return [*self._begin, *gap, *self._end]


def read_source(path: Path) -> Curves:
    """The numbers in a file (JSON, JSON lines, CSV, TSV) or in a folder of TensorBoard event files."""
    curves: Curves = {}
    try:
        if path.is_dir():
            return read_events(path)
        text = path.read_text(encoding="utf8")
        if path.suffix == ".json":
            tree = json.loads(text)
            rows = tree if isinstance(tree, list) else [dict(_flat(tree))]
        elif path.suffix in (".csv", ".tsv"):
            rows = list(csv.DictReader(text.splitlines(), delimiter="\t" if path.suffix == ".tsv" else ","))
        else:
            rows = [json.loads(line) for line in text.splitlines() if line.strip()]
        for number, row in enumerate(rows, 1):
            add_line(curves, {key: _plain(value) for key, value in row.items()}, number if len(rows) > 1 else None)
    except (OSError, ValueError, RecursionError, AttributeError) as error:
        raise InvalidInput(f"{path}: {getattr(error, 'strerror', None) or described(error)}") from None
    return curves


def _plain(value: Any) -> Any:
    number = to_number(value) if isinstance(value, str) else None
    return value if number is None else int(number) if number == number and number.is_integer() else number


def _flat(tree: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items() if isinstance(tree, dict) else ():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


# TensorBoard event files: records of a length, a checksum, an `Event` and a checksum. No library is needed for scalars.


def read_events(folder: Path) -> Curves:
    """The scalars of all event files in a folder, by tag and step."""
    curves: Curves = {}
    for file in sorted(folder.rglob("*tfevents*")):
        data, at = file.read_bytes(), 0
        while at + 12 <= len(data):
            (length,) = struct.unpack_from("<Q", data, at)
            record = data[at + 12 : at + 12 + length]
            at += 16 + length
            if len(record) < length:
                break  # it is still being written
            event = dict(_fields(record))
            step = event.get(2, 0)
            for number, value in _fields(event.get(5, b"")):
                scalar = dict(_fields(value)) if number == 1 else {}
                found = _scalar(scalar)
                if found is not None and isinstance(step, int):
                    name = scalar[1].decode("utf8", "replace").replace("/", ".")
                    curves.setdefault(name, {})[step] = found
    return curves


def _scalar(value: Mapping[int, Any]) -> float | None:
    """A simple value, or a tensor of one float or double."""
    if 1 not in value:
        return None
    if 2 in value:
        return float(struct.unpack("<f", value[2])[0])
    tensor = dict(_fields(value.get(8, b"")))
    kind = {1: ("<f", 4), 2: ("<d", 8)}.get(tensor.get(1, 0))
    content = tensor.get(4) or tensor.get(5) or tensor.get(6) or b""
    if kind is None or not isinstance(content, bytes) or len(content) != kind[1]:
        return None
    return float(struct.unpack(kind[0], content)[0])


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """(number, value) of every field of a protocol buffer message."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        size = {1: 8, 5: 4}.get(kind)
        if size is None:
            if kind != 2:
                return
            size, at = _varint(data, at)
        yield key >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data):
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            break
    return value, at


# MLflow: a folder of small files, or a SQLite file. One row per run: its parameters, and its numbers as curves.


def read_mlflow(path: Path) -> list[tuple[dict[str, str], Curves]]:
    """Every run of a store: its parameters and its curves."""
    runs: dict[str, tuple[dict[str, str], Curves]] = {}
    if path.is_file():
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as store:
            for run, key, value in store.execute("select run_uuid, key, value from params"):
                runs.setdefault(run, ({}, {}))[0][key] = value
            rows = store.execute("select run_uuid, key, value, step, is_nan from metrics order by timestamp")
            for run, key, value, step, is_nan in rows:
                curve = runs.setdefault(run, ({}, {}))[1].setdefault(key.replace("/", "."), {})
                curve[int(step)] = math.nan if is_nan else float(value)
        store.close()
        return list(runs.values())
    for folder in sorted(place.parent for place in path.rglob("metrics") if place.is_dir()):
        parameters, curves = runs.setdefault(str(folder), ({}, {}))
        for file in (folder / "params").rglob("*"):
            if file.is_file():
                parameters[file.relative_to(folder / "params").as_posix()] = file.read_text(encoding="utf8").strip()
        for file in (folder / "metrics").rglob("*"):
            name = file.relative_to(folder / "metrics").as_posix().replace("/", ".")
            for line in file.read_text(encoding="utf8").splitlines() if file.is_file() else ():
                words = line.split()
                if len(words) >= 2:
                    curves.setdefault(name, {})[int(words[2]) if len(words) > 2 else 0] = float(words[1])
    return list(runs.values())
