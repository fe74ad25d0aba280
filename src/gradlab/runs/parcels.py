"""What travels to another machine: everything that trials share once, then bundles that only name their trials.

Cargo     once per run: groups with their configurations, the user's part files, the run's fingerprint
Ticket    one trial: (number of its group, seed, id)
Answer    what a worker sends back: its finished trials by id, or why it may not run any
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from gradlab.cache import cache_folder
from gradlab.data.base import Task
from gradlab.errors import PartError
from gradlab.parts import BUILT_IN, Catalog
from gradlab.runs.fingerprint import take_fingerprint
from gradlab.runs.freight import Freight
from gradlab.runs.worker import Bundle
from gradlab.spec.config import Config
from gradlab.trials.trial import Trial

Ticket = tuple[int, int, str]


@dataclass(frozen=True)
class PartText:
    """A part file of the user's: its name, its text and the identity that entered the trials' ids."""

    name: str
    text: bytes
    identity: str


@dataclass(frozen=True)
class Cargo:
    """What the trials of a run share."""

    groups: tuple[tuple[str, int, Config], ...]
    """Name, root seed and configuration."""
    parts: tuple[PartText, ...]
    fingerprint: Mapping[str, Any]
    """Of the process that started the run."""
    mixed: bool = False
    """Whether workers of another kind are accepted."""

    @cached_property
    def catalog(self) -> Catalog:
        """The parts, loaded from a private copy of the part files."""
        if not self.parts:
            return BUILT_IN
        folder = cache_folder("parts")
        if folder is None:
            raise PartError("the study's part files cannot be written on this machine: no cache folder is usable")
        catalog = Catalog.with_files([_written(part, folder) for part in self.parts])
        for file, part in zip(catalog.files, self.parts, strict=True):
            if file.identity != part.identity:
                raise PartError(
                    f"parts file {part.name}: the modules that it imports differ from those of the machine that "
                    "started the run; put them into one file, or on a path that all machines share"
                )
        return catalog

    def trials(self, tickets: Sequence[Ticket]) -> Bundle:
        """The trials of these tickets, as an engine trains them."""
        return tuple(
            Trial(identity, name, seed, root, config, self.catalog)
            for number, seed, identity in tickets
            for name, root, config in (self.groups[number],)
        )

    def read_data(self) -> dict[str, Any]:
        """Read what the tasks read from files, by source, for a place that all workers of a machine share."""
        found: dict[str, Any] = {}
        for _, _, config in self.groups:
            task: Task = config.data.build(self.catalog)
            if task.source() and task.source() not in found:
                found[task.source()] = task.read()
        return found


@dataclass(frozen=True)
class Answer:
    """What a worker sends back for a bundle."""

    results: Freight = field(default_factory=Freight)
    refused: str | None = None
    """Why this worker may not run trials; they have to run elsewhere."""
    node: str = ""
    other: Mapping[str, Any] | None = field(default=None)
    """The worker's fingerprint, if it differs from the run's and was accepted all the same."""


def pack(bundles: Sequence[Bundle], *, mixed: bool = False) -> tuple[Cargo, list[tuple[Ticket, ...]]]:
    """Split bundles into what their trials share and the rest."""
    numbers: dict[tuple[str, int, int], int] = {}
    groups: list[tuple[str, int, Config]] = []
    tickets: list[tuple[Ticket, ...]] = []
    for bundle in bundles:
        own = []
        for trial in bundle:
            key = trial.group, trial.root, id(trial.config)
            if key not in numbers:
                numbers[key] = len(groups)
                groups.append((trial.group, trial.root, trial.config))
            own.append((numbers[key], trial.seed, trial.id))
        tickets.append(tuple(own))
    files = bundles[0][0].catalog.files if bundles else ()
    parts = tuple(PartText(Path(file.path).name, Path(file.path).read_bytes(), file.identity) for file in files)
    return Cargo(tuple(groups), parts, take_fingerprint(), mixed), tickets


def _written(part: PartText, folder: Path) -> Path:
    place = folder / sha256(part.text).hexdigest()[:16]
    path = place / part.name
    place.mkdir(mode=0o700, exist_ok=True)
    if not path.is_file() or path.read_bytes() != part.text:
        temporary = place / f".{os.getpid()}.tmp"
        temporary.write_bytes(part.text)
        os.replace(temporary, path)
    return path
