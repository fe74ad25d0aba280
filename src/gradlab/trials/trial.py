"""A trial: one configuration, one seed, one engine call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gradlab.data.base import Task
from gradlab.parts import Catalog
from gradlab.spec.base import Frozen, content_id
from gradlab.spec.choice import Choice
from gradlab.spec.config import Config

if TYPE_CHECKING:
    from gradlab.trials.outcome import TrialResult


@dataclass(frozen=True)
class TrialLabel:
    """The identity of a trial, which is all that its results need. `group` and `name` are labels; `id` is a hash."""

    id: str
    group: str
    seed: int

    @property
    def name(self) -> str:
        """A label: the group and the seed."""
        return f"{self.group} · seed {self.seed}"


class Job(ABC):
    """What a trial does that is not a network of the lab, such as a command. Jobs are pickled and go to any worker."""

    @abstractmethod
    def run(self, trial: TrialLabel, tick: Callable[[int, float], None] | None) -> TrialResult:
        """Run one trial; a failure is part of the result. `tick` takes progress and raises if the run is stopping."""


@dataclass(frozen=True)
class Trial(TrialLabel):
    """A configuration with a seed, as an engine trains it; or a job of another kind."""

    root: int
    network: Config | None
    """None where the user's code is called."""
    catalog: Catalog
    job: Job | None = None
    """What is run instead of an engine; None of networks, and of functions that only their own process can call."""

    @property
    def config(self) -> Config:
        """The configuration of a network of the lab."""
        if self.network is None:
            raise TypeError(f"{self.name} is a call of the user's code, which has no configuration")
        return self.network


def group_content(config: Config, root: int, catalog: Catalog, task: Task) -> str:
    """Hash what a group is, independent of the engine: configuration, root seed, the user's parts, data.

    The data enter by content, not by name or location. A depth enters as such, however it is given.
    """
    tree = config.model_dump(mode="json")
    for section in (config.model, config.train, config.measure):
        _leave_out_defaults(tree[type(section).noun], section, catalog)
    tree["model"] = {**tree["model"], "depth": config.model.depth}
    tree["model"].pop("blocks", None)
    usual = {name: task.default(name) for name in task.later}
    tree["data"] = {
        key: value
        for key, value in tree["data"].items()
        if key not in task.location and not (key in usual and usual[key] == value)
    }
    del tree["train"]["engine"]
    return content_id(
        {
            "config": tree,
            "root": root,
            "parts": sorted(file.identity for file in catalog.files),
            "data": task.fingerprint(),
        }
    )


def _leave_out_defaults(tree: dict[str, Any], section: Frozen, catalog: Catalog) -> None:
    """Remove fields, and parameters of parts, that were added after ids were fixed, where they have their default."""
    for name in section.later:
        if getattr(section, name) == section.default(name):
            del tree[name]
    for name, choice in section:
        if not isinstance(choice, Choice) or not isinstance(tree.get(name), dict):
            continue
        part = catalog.get(choice.part, choice.name)
        for parameter in part.later:
            if tree[name][parameter] == part.default(parameter):
                del tree[name][parameter]
        if len(tree[name]) == 1:  # a choice without parameters is its name
            tree[name] = choice.name


def group_id(content: str, numerics: str) -> str:
    """Hash everything but the seed that determines a group's results: its content and its numerics."""
    return content_id([content, numerics])


def trial_id(group: str, seed: int) -> str:
    """Hash a group's id and the trial's seed."""
    return content_id([group, seed])
