"""What a watch costs: a 12-layer transformer of width 256, trained with and without it, side by side in one run.

python benchmarks/watch_overhead.py [EVERY]      # default 100; prints the share of time that watching adds
"""

from __future__ import annotations

import sys
from statistics import median
from time import perf_counter

import gradlab
import torch
from torch import nn

STEPS, ROUNDS, DENSE = 60, 3, 10


def model_of() -> nn.Module:
    """Twelve pre-norm encoder layers."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(256, 8, 1024, dropout=0.0, batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, 12, enable_nested_tensor=False)


def steps(every: int | None) -> list[float]:
    """Seconds of each step."""
    model = model_of()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    x = torch.randn(4, 32, 256)
    watch = None if every is None else gradlab.watch(model, optimizer, every=every, quiet=True)
    took = []
    for _ in range(STEPS):
        start = perf_counter()
        optimizer.zero_grad()
        (model(x) - x).square().mean().backward()
        optimizer.step()
        took.append(perf_counter() - start)
    if watch is not None:
        watch.close()
    return took


def main() -> None:
    """Alternate; the median step of each kind, so that a busy moment of the machine decides nothing."""
    every = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    torch.set_num_threads(1)
    alone: list[float] = []
    looked: list[float] = []
    between: list[float] = []
    for _ in range(ROUNDS):
        alone += steps(None)
        watched = steps(DENSE)
        # a probe goes on at the end of the step before the one it looks at: both are counted
        pairs = range(DENSE, STEPS, DENSE)
        looked += [watched[step - 1] + watched[step] for step in pairs]
        between += [took for step, took in enumerate(watched) if step % DENSE not in (0, DENSE - 1)]
    plain = median(alone)
    extra = median(looked) - 2 * plain
    print(f"a step takes {1000 * plain:.1f} ms alone, {1000 * median(between):.1f} ms between the steps looked at")
    print(f"looking at a step adds {1000 * extra:.1f} ms: {100 * extra / (every * plain):+.2f} % at every={every}")


if __name__ == "__main__":
    main()
