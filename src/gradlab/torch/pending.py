"""Samples that wait to be measured: many of them are measured by a few calls, which one by one would take hundreds.

A hook copies the sample and goes on. Samples of one size are rows of a matrix when their turn comes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple

import torch
from gradlab.torch import statistics
from gradlab.torch.statistics import LARGEST, SMALLEST, widest_dtype
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


def measure_spreads(samples: Sequence[Tensor]) -> list[tuple[float | None, float | None]]:
    """Return which share of the energy differs between samples and, of three axes, between the tokens of a sample."""
    found: dict[int, tuple[float | None, float | None]] = {}
    for places in _group([(sample.shape, sample.device) for sample in samples]):
        stacked = torch.stack([samples[place] for place in places])
        whole = _size_each(stacked)
        apart = _size_each(stacked - stacked.mean(1, keepdim=True))
        tokens = _size_each(stacked - stacked.mean(2, keepdim=True)) if stacked.dim() == 4 else whole
        has_tokens = stacked.dim() == 4 and stacked.shape[2] > 1
        for place, size, first, second in zip(places, whole, apart, tokens, strict=True):
            if min(size, first, second) > SMALLEST and max(size, first, second) < LARGEST:
                found[place] = (first / size) ** 2, (second / size) ** 2 if has_tokens else None
            else:  # float32 cannot square them
                few = samples[place]
                between = statistics.share_apart(few, 1) if has_tokens else None
                found[place] = statistics.share_apart(few.flatten(1), 0), between
    return [found[place] for place in range(len(samples))]


def _size_each(stacked: Tensor) -> list[float]:
    sizes: list[float] = torch.linalg.vector_norm(stacked.flatten(1), dim=1).tolist()
    return sizes


def _group(kinds: Sequence[Hashable]) -> Iterable[list[int]]:
    """Return the places of what is of one kind, kind by kind."""
    groups: dict[Hashable, list[int]] = {}
    for place, kind in enumerate(kinds):
        groups.setdefault(kind, []).append(place)
    return groups.values()


def summarize(samples: Sequence[Tensor]) -> list[Summary]:
    """Summarize samples of finite entries."""
    found: dict[int, Summary] = {}
    for places in _group([(sample.numel(), sample.dtype, sample.device) for sample in samples]):
        rows = torch.stack([samples[place] for place in places])
        found.update(zip(places, _summarize_rows(rows), strict=True))
    return [found[place] for place in range(len(samples))]


def _summarize_rows(rows: Tensor) -> Iterator[Summary]:
    """Summarize the rows of a matrix."""
    low, high = rows.amin(1).tolist(), rows.amax(1).tolist()  # faster than both at once
    sums, norms = rows.sum(1).tolist(), torch.linalg.vector_norm(rows, dim=1).tolist()
    count = rows.shape[1]
    zeros = (rows == 0).sum(1).tolist()
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
