"""What the model is given: its scale, and whether samples differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gradlab.spec.numerals import written
from gradlab.torch.findings import Finding

if TYPE_CHECKING:
    from gradlab.torch.results import ProbeResults

LARGE = 30.0
"""Root mean square above which an input was hardly normalized."""


def find(probe: ProbeResults) -> Iterator[Finding]:
    """Judge the first floating-point input of at least two axes."""
    received = probe.records.received
    if received is None:
        return
    if received.same:
        yield Finding(
            "identical samples", "the input", f"all {received.shape[0]} samples of the batch are equal",
            "check the data loader: does its index advance? was one sample expanded instead of many stacked?",
        )  # fmt: skip
    first = min(probe.modules.values(), key=lambda row: row.order, default=None)
    if received.rms > LARGE and first is not None and "Norm" not in first.kind:
        yield Finding(
            "input scale", "the input",
            f"inputs are not normalized: their root mean square is {written(received.rms)} (mean "
            f"{written(received.mean)}), and the first module, {first.name}, is not a norm",
            "subtract the mean and divide by the standard deviation of the training set (for pixels, divide by "
            "255 first)",
        )  # fmt: skip
