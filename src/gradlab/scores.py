"""What a score is: how well a network does on the samples of a split, from its outputs and their targets.

After an epoch every score of the study is taken on the validation and on the test samples, and is called after both:
`validation_accuracy`, `test_accuracy`. Claims, headlines, tuning, early stopping and the best epoch can name it.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from gradlab.parts import Part
from gradlab.spec.metric import Kind, Metric, Split

Array = NDArray[Any]


class Score(Part):
    """A number for all samples of a split. It reads outputs and changes nothing."""

    part: ClassVar[str] = "score"
    kind: ClassVar[Kind] = "score"
    """What kind of number it is, which says what is better and on which scale it is judged (see spec/metric.py)."""
    targets: ClassVar[Literal["classes", "values"]]
    """Which tasks have it: those with classes, or those with real values."""

    @abstractmethod
    def value(self, output: Array, target: Array) -> float:
        """The score.

        output: what the network answers in evaluation mode, (n, k), float32 or float64. target: class numbers (n,) or
        values (n, k), as `targets` says. Must be deterministic and must not write to either.
        """

    @classmethod
    def metric(cls, split: Split) -> Metric:
        """The metric of a trial that it gives on a split."""
        return Metric.of(f"{split}_{cls.name}", cls.kind, split=split)


class Accuracy(Score):
    """Share of samples whose largest output is at the target's class."""

    name = "accuracy"
    kind = "accuracy"
    targets = "classes"

    def value(self, output: Array, target: Array) -> float:
        """Correct answers over samples."""
        return int(np.count_nonzero(output.argmax(1) == target)) / len(target)


class CalibrationError(Score):
    """Expected calibration error: how far confidence is from accuracy, over bins of the confidence."""

    name = "calibration_error"
    kind = "error"
    targets = "classes"
    bins: int = 15
    """Equal bins of the largest softmax probability, from 0 to 1."""

    def value(self, output: Array, target: Array) -> float:
        """Σ over bins of n_bin/n · |accuracy − mean confidence| (Guo et al. 2017)."""
        shifted = np.exp(output.astype(np.float64) - output.max(1, keepdims=True))
        confidence = shifted.max(1) / shifted.sum(1)
        right = output.argmax(1) == target
        place = np.minimum((confidence * self.bins).astype(int), self.bins - 1)
        gaps = np.bincount(place, right - confidence, self.bins)
        return float(np.abs(gaps).sum() / len(target))


class Top5(Score):
    """Share of samples whose class is among the five largest outputs."""

    name = "top5_accuracy"
    kind = "accuracy"
    targets = "classes"

    def value(self, output: Array, target: Array) -> float:
        """Fewer than five outputs are larger than that of the target's class."""
        own = np.take_along_axis(output, target.astype(np.intp)[:, None], 1)
        return int(np.count_nonzero((output > own).sum(1) < 5)) / len(target)


class Mae(Score):
    """Mean absolute error."""

    name = "mae"
    kind = "error"
    targets = "values"

    def value(self, output: Array, target: Array) -> float:
        """Over samples and outputs."""
        return float(np.mean(np.abs(output.astype(np.float64) - target)))


class Rmse(Score):
    """Root of the mean squared error."""

    name = "rmse"
    called = "RMSE"
    kind = "error"
    targets = "values"

    def value(self, output: Array, target: Array) -> float:
        """Over samples and outputs."""
        return float(np.sqrt(np.mean((output.astype(np.float64) - target) ** 2)))


class R2(Score):
    """Coefficient of determination, R² = 1 − Σ error²/Σ (target − mean)², averaged over the outputs that vary."""

    name = "r2"
    called = "R²"
    kind = "score"
    targets = "values"

    def value(self, output: Array, target: Array) -> float:
        """0 where no target varies."""
        wide = target.astype(np.float64)
        spread = np.sum((wide - wide.mean(0)) ** 2, 0)
        error = np.sum((output.astype(np.float64) - wide) ** 2, 0)
        varies = spread > 0
        return float(np.mean(1 - error[varies] / spread[varies])) if varies.any() else 0.0
