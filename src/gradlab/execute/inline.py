"""One trial after the other, in this process, with BLAS pinned to one thread.

The pin is part of the result: the number of BLAS threads changes the last bits of float32 products.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from threadpoolctl import threadpool_limits

from gradlab.execute.base import TrialResult, run_trial
from gradlab.trial.trial import Trial


def run_inline(trials: Iterable[Trial], tick: Callable[[Trial, int], None] | None = None) -> Iterator[TrialResult]:
    """Results in the order of the trials, each as soon as it is there."""
    import numpy as np

    np.ones((2, 2)) @ np.ones((2, 2))  # the BLAS has to be loaded before it can be limited
    with threadpool_limits(1):
        for trial in trials:
            yield run_trial(trial, None if tick is None else (lambda done, t=trial: tick(t, done)))  # type: ignore[misc]
