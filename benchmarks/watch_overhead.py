"""Measure what a watch costs, in time and in memory, and print both as a table.

python benchmarks/watch_overhead.py              # both
python benchmarks/watch_overhead.py time         # the step of a 12-layer transformer, with and without, step by step
python benchmarks/watch_overhead.py memory       # the peak of a process that trains a network, with and without
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from statistics import median
from time import process_time

import torch
from torch import nn

import gradlab

EVERY = (1, 10, 100)
WARM, STEPS, DENSE = 3, 40, 10
MEMORY_STEPS, PROCESSES = 6, 3


def make_transformer() -> tuple[nn.Module, torch.Tensor]:
    """Return twelve pre-norm encoder layers of width 256, and a batch of 4 × 32 tokens."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(256, 8, 1024, dropout=0.0, batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, 12, enable_nested_tensor=False), torch.randn(4, 32, 256)


def make_perceptron() -> tuple[nn.Module, torch.Tensor]:
    """Return four layers of width 4112, which are 271 MB of weights, and a batch of 64."""
    torch.manual_seed(0)
    layers = [layer for _ in range(4) for layer in (nn.Linear(4112, 4112), nn.ReLU())]
    return nn.Sequential(*layers), torch.randn(64, 4112)


NETWORKS = {"12-layer transformer": make_transformer, "MLP of 4 × 4112": make_perceptron}


def prepare(make: Callable[[], tuple[nn.Module, torch.Tensor]]) -> tuple[nn.Module, torch.optim.Optimizer, Callable]:
    """Return a network, its optimizer and its training step."""
    model, x = make()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)

    def step() -> None:
        optimizer.zero_grad()
        (model(x) - x).square().mean().backward()
        optimizer.step()

    return model, optimizer, step


def seconds_of(step: Callable[[], None]) -> float:
    """Return the processor time of one step: what other programs take meanwhile does not count."""
    start = process_time()
    step()
    return process_time() - start


def measure_time() -> None:
    """Train twins in turn, one of them watched, and compare the median step."""
    torch.set_num_threads(1)
    (_, _, alone), (model, optimizer, watched) = prepare(make_transformer), prepare(make_transformer)
    plain: list[float] = []
    dense: list[float] = []
    for _ in range(WARM):
        alone(), watched()
    with gradlab.watch(model, optimizer, every=1, quiet=True):
        for number in range(WARM + STEPS):
            pair = seconds_of(alone), seconds_of(watched)
            if number >= WARM:
                plain.append(pair[0]), dense.append(pair[1])
    between: list[float] = []
    again: list[float] = []
    with gradlab.watch(model, optimizer, every=DENSE, quiet=True):
        for number in range(1, 1 + STEPS):
            pair = seconds_of(alone), seconds_of(watched)
            if number % DENSE not in (0, 1):  # the watch attaches its hooks in the step before the probed one
                again.append(pair[0]), between.append(pair[1])
    probed = median(dense) / median(plain) - 1
    rest = median(between) / median(again) - 1
    print(
        f"a step takes {1000 * median(plain):.1f} ms, a probed one {100 * probed:+.1f} %, another {100 * rest:+.1f} %"
    )
    print("\n| every | time |\n| --- | --- |")
    for every in EVERY:
        print(f"| {every} | {100 * (probed + (every - 1) * rest) / every:+.1f} % |")


def measure_memory() -> None:
    """Train in fresh processes, alone and watched, and compare their peaks."""
    print("\n| network | weights | peak alone | watched, every=100 | watched, every=1 | more than alone |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, make in NETWORKS.items():
        size = sum(p.numel() * p.element_size() for p in make()[0].parameters()) / 1e6
        peaks = {every: min(run_process(name, every) for _ in range(PROCESSES)) for every in (0, 100, 1)}
        more = ", ".join(
            f"{peaks[every] - peaks[0]:+.0f} MB ({100 * (peaks[every] - peaks[0]) / size:+.0f} %)" for every in (100, 1)
        )
        print(f"| {name} | {size:.0f} MB | {peaks[0]:.0f} MB | {peaks[100]:.0f} MB | {peaks[1]:.0f} MB | {more} |")


def run_process(name: str, every: int) -> float:
    """Return the peak of a fresh process in MB; every 0 is without a watch."""
    made = subprocess.run(
        [sys.executable, __file__, "peak", name, str(every)], capture_output=True, text=True, check=True
    )
    return float(made.stdout)


def print_peak(name: str, every: int) -> None:
    """Train a few steps and print the peak of this process in MB, with the watch's code loaded either way."""
    import gradlab.torch.watch

    torch.set_num_threads(1)
    model, optimizer, step = prepare(NETWORKS[name])
    watch = gradlab.watch(model, optimizer, every=every, quiet=True) if every else None
    for _ in range(MEMORY_STEPS):
        step()
    if watch is not None:
        watch.close()
        watch.diagnose()
    print(read_peak())


def read_peak() -> float:
    """Return the peak of this process in MB; `ru_maxrss` would count the process that started it."""
    with open("/proc/self/status") as status:
        return next(float(line.split()[1]) for line in status if line.startswith("VmHWM")) * 1.024e-3


def main() -> None:
    """Do what the first argument says."""
    what = sys.argv[1] if len(sys.argv) > 1 else "both"
    if what == "peak":
        print_peak(sys.argv[2], int(sys.argv[3]))
        return
    if what in ("time", "both"):
        measure_time()
    if what in ("memory", "both"):
        measure_memory()


if __name__ == "__main__":
    main()
