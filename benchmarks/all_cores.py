"""Trials side by side on all cores, beside what the machine itself gives to two independent loops.

python benchmarks/all_cores.py [TRIALS]

Each row is how much faster all cores are than one: independent BLAS loops (one process per core), independent loops of
the compiled kernel (threads), and whole trials by the pool of threads and by processes. Trials of two sizes: small ones
(about 5 ms) and the depth study's (about 1 s). Every time is the best of three rounds, one core and all cores in turn.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any

import numpy as np

import gradlab
from gradlab.arithmetic import one_blas_thread
from gradlab.engines.fused import Fused
from gradlab.runs.executors.pool import Pool
from gradlab.runs.executors.processes import Processes
from gradlab.runs.worker import Monitor, run_bundle
from gradlab.trials.setup import prepare

CORES = os.cpu_count() or 1
ROUNDS = 3
SMALL = {
    "data": {"task": "identity", "dim": 32, "samples": 512},
    "model": {"depth": 4, "width": 32},
    "train": {"loss": "mse", "optimizer": "adam", "lr": 0.01, "batch": 64, "steps": 150},
}
DEPTH = {
    "data": {"task": "mnist"},
    "model": {"depth": 30, "width": 32, "skip": "add_then_activate"},
    "train": {"loss": "cross_entropy", "optimizer": "adam", "lr": 1e-4, "batch": 256, "epochs": 4},
}


def multiply(times: int) -> None:
    """One loop of BLAS, on one core."""
    a = np.ones((384, 384), np.float32)
    with one_blas_thread():
        for _ in range(times):
            a @ a


def time_blas(workers: int) -> float:
    """Return the seconds of as many processes, each with its own loop, started beforehand."""
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        pool.map(multiply, [10] * workers, chunksize=1)
        start = perf_counter()
        pool.map(multiply, [2000] * workers, chunksize=1)
        return perf_counter() - start


def time_kernels(base: dict[str, Any], workers: int) -> float:
    """Return the seconds of as many threads, each training its own trial again and again inside the kernels."""
    trainers = [Fused().trainer(prepare(trial)) for trial in trials(base, workers)]

    def train(trainer: Any) -> None:
        for _ in range(60 if base is SMALL else 4):
            trainer.advance(0, 150)

    with ThreadPoolExecutor(workers) as threads:
        list(threads.map(train, trainers))
        start = perf_counter()
        list(threads.map(train, trainers))
        return perf_counter() - start


def trials(base: dict[str, Any], count: int) -> tuple[Any, ...]:
    """Return trials of one network with different seeds."""
    return gradlab.plan({"question": "How fast?", "base": base, "seeds": count, "measure": {}}).trials


def time_trials(base: dict[str, Any], count: int, executor: Any) -> float:
    """Return the seconds from the first result to the last: what it takes to start is not counted."""
    chosen = trials(base, count)
    size = max(1, count // 40)
    bundles = [chosen[i : i + size] for i in range(0, count, size)]
    moments, done = [], []
    for results in executor.run(bundles, Monitor()):
        moments.append(perf_counter())
        done.append(len(results))
    wide = executor.width(count)
    return (moments[-1] - moments[wide - 1]) / max(sum(done[wide:]), 1) * count


def compare(name: str, of: Callable[[int], float], work_grows: bool) -> None:
    """Print one row; `work_grows`: every worker has its own work, otherwise they share it."""
    found: dict[int, list[float]] = {1: [], CORES: []}
    for _ in range(ROUNDS):
        for workers in found:
            found[workers].append(of(workers))
    one, every = min(found[1]), min(found[CORES])
    ratio = one / every * (CORES if work_grows else 1)
    print(f"{name:<44}{one * 1e3:10.0f} ms{every * 1e3:10.0f} ms{ratio:8.2f} ×", flush=True)


def main() -> None:
    """Print the table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    run_bundle(trials(SMALL, 1), Monitor())
    print(f"{CORES} cores; one core, all cores, and how much faster\n")
    compare("BLAS, a process each", time_blas, work_grows=True)
    for name, base, many in (("small", SMALL, count), ("depth", DEPTH, 8)):
        compare(f"{name}: kernels alone, threads", lambda n, base=base: time_kernels(base, n), work_grows=True)
        for executor in (Pool, Processes):
            compare(
                f"{name}: {many} trials, {executor.name}",
                lambda n, base=base, many=many, executor=executor: time_trials(base, many, executor(workers=n)),
                work_grows=False,
            )


if __name__ == "__main__":
    main()
