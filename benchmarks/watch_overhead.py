"""What a watch costs: a 12-layer transformer of width 256, trained with and without it, side by side in one run.

python benchmarks/watch_overhead.py [EVERY]      # default 100; prints the share of time that watching adds
"""

from __future__ import annotations

import sys
from time import perf_counter

import torch
from torch import nn

import gradlab

STEPS, ROUNDS = 100, 3


def model_of() -> nn.Module:
    """Twelve pre-norm encoder layers."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(256, 8, 1024, dropout=0.0, batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, 12, enable_nested_tensor=False)


def seconds(every: int | None) -> float:
    """Of so many steps."""
    model = model_of()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-4)
    x = torch.randn(4, 32, 256)
    watch = None if every is None else gradlab.watch(model, optimiser, every=every)
    start = perf_counter()
    for _ in range(STEPS):
        optimiser.zero_grad()
        (model(x) - x).square().mean().backward()
        optimiser.step()
    took = perf_counter() - start
    if watch is not None:
        watch.close()
    return took


def main() -> None:
    """Alternate, take the best of each."""
    every = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    torch.set_num_threads(1)
    alone, watched = [], []
    for _ in range(ROUNDS):
        alone.append(seconds(None))
        watched.append(seconds(every))
    share = min(watched) / min(alone) - 1
    print(f"{STEPS} steps: {min(alone):.2f} s alone, {min(watched):.2f} s watched every {every}: {100 * share:+.1f} %")


if __name__ == "__main__":
    main()
