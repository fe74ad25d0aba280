"""The loss: its sign, what it is computed of, and where it begins."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradlab.spec.numerals import written
from gradlab.torch.findings import Finding

if TYPE_CHECKING:
    from gradlab.torch.objective import Objective
    from gradlab.torch.results import ProbeResults

TIMES_GUESS, ABOVE_GUESS = 2.0, 3.0
"""An initial cross-entropy is too high beyond so many times a guess, and so much above it."""
TIMES_VARIANCE = 100.0
"""An initial squared error is too high beyond so many times the variance of the targets."""


def find(probe: ProbeResults) -> Iterator[Finding]:
    """Judge the criterion that the loss was made of."""
    objective = probe.records.objective
    if objective is None:
        return
    if objective.negated or (any(rate.get("maximize") for rate in probe.rates) and objective.value > 0):
        how = "it enters the loss with a minus sign" if objective.negated else "the optimizer has maximize=True"
        yield Finding(
            "wrong sign of the loss", objective.kind, f"{how}, so training makes the {objective.kind} grow",
            "minimize the criterion itself",
        )  # fmt: skip
    if objective.squashed is not None:
        wants = "log-probabilities" if _is_bare(objective) else "logits and computes probabilities itself"
        yield Finding(
            "probabilities instead of logits", objective.kind,
            f"outputs pass through a {objective.squashed} before the {objective.kind}, which expects {wants}: the loss "
            "cannot get near 0, and its gradients stay small",
            f"remove the {objective.squashed} from the model, and apply it only to read the outputs",
        )  # fmt: skip
    elif is_far_above_guess(objective):
        yield describe_start(objective)


def _is_bare(objective: Objective) -> bool:
    """Whether a likelihood was taken of probabilities without their logarithm."""
    return objective.own is not None and objective.own < 0


def is_far_above_guess(objective: Objective) -> bool:
    """Whether the outputs are far worse than an answer without any knowledge."""
    if objective.own is None or objective.guess is None or not math.isfinite(objective.own):
        return False
    if objective.kind == "squared error":
        return objective.guess > 0 and objective.own > TIMES_VARIANCE * objective.guess
    return objective.own > max(TIMES_GUESS * objective.guess, objective.guess + ABOVE_GUESS)


def describe_start(objective: Objective) -> Finding:
    """The finding of a loss that begins far above a guess."""
    if objective.kind == "squared error":
        return Finding(
            "initial loss too high", objective.kind,
            f"it starts at {written(objective.own)}, while the mean of the targets as the answer would give "
            f"{written(objective.guess)}: {objective.far}",
            "normalize the targets, start the last bias at their mean, or use smaller initial weights in the "
            "last layer",
        )  # fmt: skip
    return Finding(
        "initial loss too high", objective.kind,
        f"it starts at {written(objective.own)}, while an even guess would give "
        f"{written(objective.guess)}: the outputs are large and wrong",
        "use smaller initial weights (a standard deviation of 0.02 for embeddings and projections of a "
        "transformer), and start the biases of the last layer at 0",
    )  # fmt: skip
