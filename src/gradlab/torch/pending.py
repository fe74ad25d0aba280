"""Samples that wait to be measured: many of them are measured by a few calls, which one by one would take hundreds.

A hook copies the sample and goes on. Samples of one size are rows of a matrix when their turn comes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from gradlab.torch.statistics import LARGEST, SMALLEST, norms_of, widest_dtype
from torch import Tensor

MOST_WAITING, MOST_ENTRIES = 256, 2**19
"""Samples, and entries of all of them, beyond which they are measured at once: 2 MB in float32."""


class Summary(NamedTuple):
    """Numbers of one sample."""

    mean: float
    std: float
    rms: float
    low: float
    high: float
    zeros: float
    """Share of exact zeros."""


class Pending:
    """Samples with what is to be done with their numbers, in the order in which they came."""

    def __init__(self, measure: Callable[[Sequence[Tensor]], Sequence[object]]) -> None:
        self._measure = measure
        self._waiting: list[tuple[Tensor, Callable[..., None]]] = []
        self._entries = 0

    def add(self, sample: Tensor, then: Callable[..., None]) -> None:
        """Measure a sample later, and call `then` with the result."""
        self._waiting.append((sample, then))
        self._entries += sample.numel()
        if len(self._waiting) > MOST_WAITING or self._entries > MOST_ENTRIES:
            self.flush()

    def flush(self) -> None:
        """Measure all that is waiting."""
        if self._waiting:
            waiting, self._waiting, self._entries = self._waiting, [], 0
            with torch.no_grad():
                found = self._measure([sample for sample, _ in waiting])
            for (_, then), result in zip(waiting, found, strict=True):
                then(result)

    def clear(self) -> None:
        """Forget what is waiting."""
        self._waiting, self._entries = [], 0


def measure_sizes(samples: Sequence[Tensor]) -> list[float]:
    """Return the root mean square of each sample."""
    return [norm / math.sqrt(sample.numel()) for sample, norm in zip(samples, norms_of(samples), strict=True)]


def summarize(samples: Sequence[Tensor]) -> list[Summary]:
    """Summarize samples of finite entries."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for place, sample in enumerate(samples):
        groups.setdefault((sample.numel(), sample.dtype, sample.device), []).append(place)
    found: dict[int, Summary] = {}
    for places in groups.values():
        rows = torch.stack([samples[place] for place in places])
        found.update(zip(places, _summarize_rows(rows), strict=True))
    return [found[place] for place in range(len(samples))]


def _summarize_rows(rows: Tensor) -> Iterator[Summary]:
    """Summarize the rows of a matrix."""
    low, high = (ends.tolist() for ends in torch.aminmax(rows, dim=1))
    sums, norms = rows.sum(1).tolist(), torch.linalg.vector_norm(rows, dim=1).tolist()
    count = rows.shape[1]
    zeros = (count - torch.count_nonzero(rows, dim=1)).tolist()
    for place, (least, most) in enumerate(zip(low, high, strict=True)):
        total, size = sums[place], norms[place]
        if max(-least, most) > LARGEST or 0 < max(-least, most) < SMALLEST:  # float32 cannot square them
            wide = rows[place].to(widest_dtype(rows))
            total, size = float(wide.sum()), float(torch.linalg.vector_norm(wide))
        mean, rms = total / count, size / math.sqrt(count)
        if 2 * mean**2 < rms**2:
            std = math.sqrt(rms**2 - mean**2)
        else:  # the difference of two numbers that are almost equal loses digits
            wide = rows[place].to(widest_dtype(rows))
            std = float(torch.linalg.vector_norm(wide - mean)) / math.sqrt(count)
        yield Summary(mean, std, rms, least, most, zeros[place] / count)
