"""A metric of a group over all planned seeds, in one `Estimate`."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from gradlab.analysis.estimate import Estimate
from gradlab.analysis.rules import ALPHA, one_arm
from gradlab.analysis.sample import Sample
from gradlab.spec.metric import Metric


def summarize(metric: Metric, sample: Sample, *, level: float = ALPHA, rows: int | None = None) -> Estimate:
    """Center and interval by the rule that decides, with everything that is not a plain number counted beside.

    `rows`: how many samples an accuracy was evaluated on; they are a sample too.
    """
    rule, tally = one_arm(metric, sample), sample.tally
    found = Estimate(None, None, None, 0) if rule is None else rule.estimate_at(level)
    finite = np.array([value for value in sample.known if math.isfinite(value)])
    return replace(
        found,
        n=len(finite),
        mean=float(finite.mean()) if len(finite) else None,
        median=float(np.median(finite)) if len(finite) else None,
        smallest=float(finite.min()) if len(finite) else None,
        largest=float(finite.max()) if len(finite) else None,
        planned=tally.planned,
        zeros=tally.zeros,
        nan=tally.nan,
        inf=tally.inf,
        minus_inf=tally.minus_inf,
        missing=tally.missing,
        diverged=tally.diverged,
        failed=tally.failed,
        sampling_error=_sampling_error(found.value, rows),
    )


def _sampling_error(share: float | None, rows: int | None) -> float | None:
    """1.96 √(p(1 − p)/m); of an accuracy in percent nobody knows m."""
    if share is None or not rows or not 0 <= share <= 1:
        return None
    return 1.96 * math.sqrt(share * (1 - share) / rows)
