"""A trial: one configuration, one seed, one engine call."""

from __future__ import annotations

from dataclasses import dataclass

from gradlab.data.base import Task
from gradlab.parts import Catalog
from gradlab.spec.canonical import content_id
from gradlab.spec.config import Config


@dataclass(frozen=True)
class TrialLabel:
    """What a trial is called: all that its results need. `group` and `name` are for people; `id` says what it is."""

    id: str
    group: str
    seed: int

    @property
    def name(self) -> str:
        """For people: the group and the seed."""
        return f"{self.group} · seed {self.seed}"


@dataclass(frozen=True)
class Trial(TrialLabel):
    """What an engine trains."""

    root: int
    config: Config
    catalog: Catalog


def group_content(config: Config, root: int, catalog: Catalog, task: Task) -> str:
    """The hash of what a group is, whoever trains it: configuration, root seed, the user's parts, data.

    The data enter by their content, not by name or place.
    """
    tree = config.model_dump(mode="json")
    tree["data"] = {key: value for key, value in tree["data"].items() if key not in task.location}
    del tree["train"]["engine"]
    return content_id(
        {
            "config": tree,
            "root": root,
            "parts": sorted(file.identity for file in catalog.files),
            "data": task.fingerprint(),
        }
    )


def group_id(content: str, numerics: str) -> str:
    """The hash of all that decides a group's results but the seed: what it is, and how numbers are rounded."""
    return content_id([content, numerics])


def trial_id(group: str, seed: int) -> str:
    """The hash of a group's id and the trial's seed."""
    return content_id([group, seed])
