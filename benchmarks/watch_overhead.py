"""Measure the overhead of a watch: train a 12-layer transformer of width 256 with and without it, alternating.

python benchmarks/watch_overhead.py [EVERY]      # default 100; prints the share of time that the watch adds
"""

from __future__ import annotations

import sys
from statistics import median
from time import perf_counter

import gradlab
import torch
from torch import nn

STEPS, ROUNDS, DENSE = 60, 3, 10


def make_model() -> nn.Module:
    """Return twelve pre-norm encoder layers."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(256, 8, 1024, dropout=0.0, batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, 12, enable_nested_tensor=False)


def steps(every: int | None) -> list[float]:
    """Return the seconds of each step."""
    model = make_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    x = torch.randn(4, 32, 256)
    watch = None if every is None else gradlab.watch(model, optimizer, every=every, quiet=True)
    seconds = []
    for _ in range(STEPS):
        start = perf_counter()
        optimizer.zero_grad()
        (model(x) - x).square().mean().backward()
        optimizer.step()
        seconds.append(perf_counter() - start)
    if watch is not None:
        watch.close()
    return seconds


def main() -> None:
    """Alternate both; use the median step of each kind, so that a busy moment of the machine has no effect."""
    every = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    torch.set_num_threads(1)
    alone: list[float] = []
    probed: list[float] = []
    between: list[float] = []
    for _ in range(ROUNDS):
        alone += steps(None)
        watched = steps(DENSE)
        # hooks are attached at the end of the step before the probed one, so both steps count
        pairs = range(DENSE, STEPS, DENSE)
        probed += [watched[step - 1] + watched[step] for step in pairs]
        between += [seconds for step, seconds in enumerate(watched) if step % DENSE not in (0, DENSE - 1)]
    plain = median(alone)
    extra = median(probed) - 2 * plain
    print(f"a step takes {1000 * plain:.1f} ms alone, {1000 * median(between):.1f} ms between probed steps")
    print(f"probing a step adds {1000 * extra:.1f} ms: {100 * extra / (every * plain):+.2f} % at every={every}")


if __name__ == "__main__":
    main()
