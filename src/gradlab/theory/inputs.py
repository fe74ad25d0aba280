"""What the task feeds the network: a few of its samples and targets, measured, not assumed.

The recursions carry the second moments of S samples and all their overlaps. S samples stand for a batch of B: a mean
over pairs of the batch has 1/B of its weight on a sample with itself, and the rest on two different ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlab.data.base import Dataset, Task
from gradlab.data.preparing import load_dataset
from gradlab.parts import Catalog
from gradlab.spec.base import content_id
from gradlab.spec.choice import DataChoice
from gradlab.spec.config import Config
from gradlab.streams import Streams
from gradlab.theory.laws import overlap_of

Array = NDArray[Any]
SAMPLES = 24
"""How many samples the recursions carry."""
SEEN = 512
"""How many samples they are chosen from."""


@dataclass(frozen=True)
class Inputs:
    """S samples of a task and the size of the batch for which they stand."""

    x: Array
    """(S, d), float64."""
    y: Array
    batch: int
    """Samples of the probe batch."""
    spread: float
    """Variance over seeds of the logarithm of the batch's mean second moment."""
    chance: float
    """What is left, over seeds, of a sample's variance in the mean over the first training batch."""

    @property
    def second(self) -> Array:
        """x_a · x_b/d, (S, S)."""
        return np.asarray(self.x @ self.x.T / self.x.shape[1])

    @property
    def overlap(self) -> float:
        """Mean correlation of two different samples."""
        return overlap_of(self.second)


def over_pairs(matrix: Array, batch: int) -> float:
    """Mean over all pairs of a batch for which a few samples stand."""
    size = len(matrix)
    own = float(matrix.trace()) / size
    if size == 1 or batch == 1:
        return own
    other = (float(matrix.sum()) - own * size) / (size * (size - 1))
    return own / batch + other * (1 - 1 / batch)


@dataclass(frozen=True)
class Pool:
    """Where the samples come from: a data set, and rows or new draws."""

    dataset: Dataset
    task: Task
    root: int

    def batch(self, config: Config, draw: int, size: int) -> tuple[Array, Array]:
        """`size` inputs and targets as a probe batch would hold them, another choice for every `draw`."""
        generator = Streams(self.root, draw).generator("theory-inputs")
        if config.measure.probe.batch == "fresh" or (len(self.dataset.train) == 1 and self.task.draws_fresh):
            drawn = self.task.fresh(generator, size)
            assert drawn is not None, "the plan refuses this"
            return self.dataset.scaled(drawn[0], np.float64), self.dataset.typed(drawn[1], np.float64)
        rows = self.dataset.rows(config.measure.probe.batch)
        return self.dataset.gather(rows[generator.choice(len(rows), min(size, len(rows)), replace=False)], np.float64)


@dataclass(frozen=True)
class _Source:
    """A task whose data are loaded once; two are the same if their content is."""

    key: str
    choice: DataChoice = field(compare=False)
    task: Task = field(compare=False)
    root: int = field(compare=False)


def pool_of(config: Config, catalog: Catalog, root: int) -> Pool:
    """Load the task's data, once per process."""
    task: Task = config.data.build(catalog)
    key = content_id([config.data.model_dump(mode="json"), task.fingerprint(), root, catalog_key(catalog)])
    return _load(_Source(key, config.data, task, root))


def catalog_key(catalog: Catalog) -> list[str]:
    """What the user's own part files are, by content."""
    return sorted(str(file.identity) for file in catalog.files)


@lru_cache(maxsize=4)
def _load(source: _Source) -> Pool:
    streams, shared = Streams(source.root, 1), Streams(source.root, None)
    loaded = load_dataset(source.choice, source.task, streams, shared)
    return Pool(loaded, source.task, source.root)


def batch_size(config: Config, pool: Pool) -> int:
    """Samples of the probe batch: no more than there are."""
    probe = config.measure.probe
    return probe.size if probe.batch == "fresh" else min(probe.size, len(pool.dataset.rows(probe.batch)))


def measure_inputs(config: Config, pool: Pool) -> Inputs:
    """Choose S samples whose second moments are spread as those of the task."""
    batch = batch_size(config, pool)
    x, y = pool.batch(config, 0, SEEN)
    sizes = np.mean(x * x, 1)
    mean = float(sizes.mean())
    spread = float(sizes.var()) / mean**2 / batch if mean > 0 else 0.0
    return represent(x, y, batch, spread, _chance(config, pool))


def _chance(config: Config, pool: Pool) -> float:
    """1/B for data that every seed draws anew; of a fixed set of N, another batch of B has 1/B − 1/N."""
    samples = len(pool.dataset.train)
    batch = training_batch(config, pool)
    return 1 / batch - (0.0 if pool.task.draws_fresh else 1 / samples)


def training_batch(config: Config, pool: Pool) -> int:
    """Samples of the first training batch, of which the initial loss is taken."""
    samples = len(pool.dataset.train)
    return samples if config.train.batch == "full" else min(config.train.batch, samples)


def represent(x: Array, y: Array, batch: int, spread: float, chance: float) -> Inputs:
    """A few of the samples, spread over the sizes of all."""
    order = np.argsort(np.mean(x * x, 1), kind="stable")
    count = min(SAMPLES, len(x))
    places = ((np.arange(count) + 0.5) * len(x) / count).astype(int)
    rows = order[places]
    return Inputs(x[rows], y[rows], batch, spread, chance)
