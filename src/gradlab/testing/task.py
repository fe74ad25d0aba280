"""What every task has to keep."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradlab.data.base import Dataset, Task
from gradlab.testing.base import Check, check, require


def checks(part: Task) -> Iterator[Check]:
    """Facts, splits, repeatability."""

    def load(seed: int = 0) -> Dataset:
        return part.load(np.random.default_rng(seed), np.random.default_rng(seed + 1))

    def facts() -> None:
        data, said = load(), part.facts()
        found = (data.input_width, data.output_width, len(data.train), data.classes)
        stated = (said.input_width, said.output_width, said.samples, said.classes)
        require(found == stated, f"facts say {stated} (inputs, outputs, samples, classes), the data are {found}")
        rest = (len(data.validation), len(data.test))
        stated_rest = (said.validation, said.test)
        require(stated_rest == rest, f"facts say {stated_rest} (validation, test), the data are {rest}")

    def splits() -> None:
        data = load()
        rows = np.concatenate([data.train, data.validation, data.test])
        require(len(np.unique(rows)) == len(rows), "a row is in two splits, or twice in one")
        require(len(data.train) > 0, "no training rows")
        require(
            rows.min() >= 0 and rows.max() < len(data.inputs) == len(data.targets),
            "a split names rows that are not there",
        )

    def repeatable() -> None:
        a, b = load(), load()
        same = all(
            np.array_equal(getattr(a, name), getattr(b, name))
            for name in ("inputs", "targets", "train", "validation", "test")
        )
        require(same, "the same generators give different data")

    def batch() -> None:
        data = load()
        x, y = data.gather(data.train[:3], np.float32)
        require(x.dtype == np.float32 and x.ndim == 2, f"inputs are {x.dtype} {x.shape}")
        require(bool(np.isfinite(x).all()), "inputs are not finite")
        if data.classes is not None:
            require(y.ndim == 1 and y.min() >= 0 and y.max() < data.classes, "targets are not class numbers")

    def fresh() -> None:
        drawn = part.fresh(np.random.default_rng(0), 5)
        require((drawn is not None) == part.draws_fresh, "fresh is defined but draws nothing")
        if drawn is not None:
            require(drawn[0].shape == (5, part.facts().input_width), f"fresh gives inputs {drawn[0].shape}")
            require(len(drawn[1]) == 5, "fresh gives another number of targets than asked for")

    yield check("facts agree with the data", facts)
    yield check("splits do not overlap", splits)
    yield check("the same generators give the same data", repeatable)
    yield check("batches can be gathered", batch)
    yield check("fresh samples have the task's shape", fresh)
