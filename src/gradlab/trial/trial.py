"""A trial: one configuration, one seed, one engine call."""

from __future__ import annotations

from dataclasses import dataclass

from gradlab.data.base import Task
from gradlab.parts import Catalog
from gradlab.spec.canonical import content_id
from gradlab.spec.config import Config


@dataclass(frozen=True)
class Trial:
    """What is trained. `group` and `name` are labels; `id` says what it is."""

    id: str
    group: str
    seed: int
    root: int
    config: Config
    catalog: Catalog

    @property
    def name(self) -> str:
        """For people: the group and the seed."""
        return f"{self.group} · seed {self.seed}"


def trial_id(config: Config, root: int, seed: int, catalog: Catalog, task: Task, numerics: str) -> str:
    """The hash of all that decides the result: configuration, seeds, the user's parts, data, numerics."""
    tree = config.model_dump(mode="json")
    tree["data"] = {key: value for key, value in tree["data"].items() if key not in task.location}
    return content_id(
        {
            "config": tree,
            "root": root,
            "seed": seed,
            "parts": sorted(file.sha256 for file in catalog.files),
            "data": task.fingerprint(),
            "numerics": numerics,
        }
    )
