"""Classifiers that never leave chance: how many, and when the others escaped.

A group of deep plain networks can be a mixture: some seeds stay at chance, some escape late. A mean of such a mixture
describes no network, so it is told by a share with its interval, a median and the epochs of escape.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradlab.analysis.estimate import Estimate
from gradlab.analysis.measured import Measured
from gradlab.analysis.rules import Proportion
from gradlab.trials.recorder import COLLAPSED

CURVES = ("test_accuracy", "validation_accuracy", "train_accuracy")


@dataclass(frozen=True)
class Collapse:
    """Of one group: the share that ended at chance, the median accuracy, and the epoch in which each seed escaped."""

    group: str
    share: Estimate
    median: float | None
    escapes: tuple[int, ...]
    """Epochs after which accuracy first was above 1.5 × chance, of the seeds that did not end at chance, in order."""
    unknown: int = 0
    """Planned seeds of which nobody can say: they diverged, failed or are missing."""

    @property
    def mixed(self) -> bool:
        """Whether some seeds collapsed and some did not."""
        return 0 < self.share.count < self.share.n


def collapse_of(measured: Measured, group: str) -> Collapse | None:
    """None where the group's task has no classes or nothing was evaluated."""
    sample = measured.sample("collapsed", group)
    metric = next((name for name in CURVES if name in measured.metrics), None)
    if not sample.known or metric is None:
        return None
    median = measured.summary(metric, group).value
    escapes = tuple(_escapes(measured, metric, group))
    return Collapse(group, Proportion.of(sample).estimate, median, escapes, sample.unknown)


def _escapes(measured: Measured, metric: str, group: str) -> list[int]:
    classes, per_epoch = measured.entries[group].classes, measured.steps_per_epoch(group)
    epochs = []
    ended = measured.values("collapsed", group)
    for seed, (steps, values) in measured.curves_by_seed(metric, group).items():
        if ended[seed] != 0:  # it may have risen above chance on the way, and fallen back
            continue
        above = np.flatnonzero(values > COLLAPSED / classes) if classes else np.empty(0, int)
        if len(above):
            epochs.append(int(-(-steps[above[0]] // per_epoch)))
    return sorted(epochs)
