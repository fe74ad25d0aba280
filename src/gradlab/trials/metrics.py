"""The metrics of a trial: what a recorder, scores and probes declare of their numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gradlab.parts import Catalog
from gradlab.probes import Probe
from gradlab.scores import Score
from gradlab.spec.metric import Metric, Metrics, Split

GUESSING = 0.01
"""A classifier has collapsed unless guessing would be as good in at most this share of test sets (`guessing_limit`)."""
EVALUATED = ("train_loss", "train_accuracy", "validation_loss", "validation_accuracy", "test_loss", "test_accuracy")
"""What every trial tells of its epochs; further scores stand beside them."""
HELD_OUT: tuple[Split, ...] = ("validation", "test")
"""The splits that scores are taken on."""
DECLARED = (
    Metric.of("initial_loss", "loss", split="train"),
    Metric.of("final_loss", "loss", split="train"),
    Metric.of("last_loss", "loss", split="train"),
    Metric.of("train_loss", "loss", split="train"),
    Metric.of("train_accuracy", "accuracy", split="train"),
    Metric.of("validation_loss", "loss", split="validation"),
    Metric.of("validation_accuracy", "accuracy", split="validation"),
    Metric.of("test_loss", "loss", split="test"),
    Metric.of("test_accuracy", "accuracy", split="test"),
    Metric.of("steps_to_target", "steps", unit="steps"),
    Metric.of("epochs_to_target", "steps", unit="epochs"),
    Metric.of("collapsed", "flag"),
    Metric.of("diverged_step", "count", unit="steps"),
    Metric.of("parameters", "count"),
    Metric.of("flops", "size"),
    Metric.of("seconds_per_epoch", "time", unit="s"),
)
"""The metrics of a trial as a whole."""
METRICS: Mapping[str, Metric] = {metric.name: metric for metric in DECLARED}
FROM_CURVES: Mapping[str, Metric] = {"loss_rises": Metric.of("loss_rises", "share", split="train")}
"""Metrics that are computed from stored curves when asked for: the share of steps at which the training loss rose."""
AT_BEST = tuple(
    replace(METRICS[name], name=f"best_{name}", label=f"{METRICS[name].label} at the best epoch") for name in EVALUATED
)
AT_BEST_EPOCH = {metric.name: metric for metric in (Metric.of("best_epoch", "count", unit="epochs"), *AT_BEST)}
WHOLE = {
    metric.name: metric
    for metric in (
        Metric.of("whole_train_loss", "loss", label="loss on all training samples", split="train"),
        Metric.of("whole_train_accuracy", "accuracy", label="accuracy on all training samples", split="train"),
        Metric.of("generalization_gap", "signed", label="generalization gap"),
    )
}
OPTIONAL: Mapping[str, Metric] = {
    **AT_BEST_EPOCH,
    "epochs_trained": Metric.of("epochs_trained", "count", unit="epochs"),
    **WHOLE,
    "sharpness": Metric.of("sharpness", "size", label="sharpness (largest eigenvalue of the Hessian)"),
}
"""Metrics of trials that ask for them: `measure.best`, `train.early_stopping`, `measure.train_set` and `sharpness`.

The gap is accuracy on all training samples less test accuracy, or for regressions test loss less training loss.
"""


def epoch_metrics(catalog: Catalog) -> dict[str, Metric]:
    """The metrics that exist once per epoch: of the loss, and of every score that the catalog has."""
    scores = [catalog.get("score", name) for name in catalog.names("score")]
    found = [score.metric(split) for score in scores if issubclass(score, Score) for split in HELD_OUT]
    return {**{name: METRICS[name] for name in EVALUATED}, **{metric.name: metric for metric in found}}


def declared_metrics(catalog: Catalog) -> Metrics:
    """What recorder, scores and probes declare of their numbers."""
    probes = [catalog.get("probe", name) for name in catalog.names("probe")]
    measures = [metric for probe in probes if issubclass(probe, Probe) for metric in probe.metrics()]
    others = {metric.name: metric for metric in measures}
    return Metrics({**epoch_metrics(catalog), **METRICS, **OPTIONAL, **FROM_CURVES, **others})


def guessing_limit(share: float, rows: int) -> float:
    """The largest accuracy on so many rows that does not show anything better than answering one class.

    `share`: that of the class. By a binomial test at `GUESSING`: of 10,000 rows of MNIST 12.1 %, of 100 rows of two
    equal classes 62 %.
    """
    from scipy.special import bdtrik

    return float(np.ceil(bdtrik(1 - GUESSING, rows, share))) / rows


def rises(losses: NDArray[np.float64]) -> float | None:
    """Return the share of steps whose training loss is above that of the step before; None of fewer than two."""
    return float(np.mean(np.diff(losses) > 0)) if len(losses) > 1 else None
