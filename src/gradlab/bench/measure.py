"""Run the workloads in every installed system in turn, on one core; report medians over rounds."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from gradlab.bench.systems import GRADLAB, PEERS, System
from gradlab.bench.workloads import TINY, WORKLOADS
from gradlab.engines.fused import Fused
from gradlab.errors import EnvironmentFault
from gradlab.runs.store.environment import environment
from gradlab.spec.config import Measure
from gradlab.trials.setup import moments_of

TINY_NETS = 1024
ALL_CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
"""The cores of this process before it pins itself to one of them."""

_SWEEP = {
    "gradlab": "from gradlab import api; api.run(sweep_tree(), workers=1)",
    **{peer: f"PEERS[{peer!r}].sweep(setups())" for peer in ("torch", "jax")},
}
_SWEEP_HEAD = """
from gradlab.bench.systems import PEERS
from gradlab.bench.workloads import depth_tree, sweep_tree
def setups(tree=sweep_tree, share=0, shares=1):
    from gradlab import api
    from gradlab.trials import prepare
    return [prepare(trial) for trial in api.plan(tree()).trials[share::shares]]
"""
_STUDY = {
    "gradlab": ("all cores", "from gradlab import api; api.run(depth_tree())"),
    **{
        peer: ("one process per core", f"PEERS[{peer!r}].sweep(setups(depth_tree, {{share}}, {{shares}}))")
        for peer in ("torch", "jax")
    },
}
"""How each system trains the depth study on all cores; code with `{share}` runs once per core, pinned to it.

Peers as one process with all threads took 1.5 times (JAX) to 2.3 times (torch) as long as one process per core.
"""


def pin_to_one_core() -> None:
    """Restrict this process to one core and one thread. XLA uses all available cores whatever its flags say."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    from threadpoolctl import threadpool_limits

    np.ones((2, 2)) @ np.ones((2, 2))
    threadpool_limits(1)


def sgemm_peak(size: int = 1536, rounds: int = 7) -> float:
    """Return the GFLOP/s of one large single-precision product, best of several rounds."""
    rng = np.random.default_rng(0)
    a, b = rng.random((size, size), np.float32), rng.random((size, size), np.float32)
    times = []
    for _ in range(rounds):
        start = perf_counter()
        a @ b
        times.append(perf_counter() - start)
    return 2 * size**3 / min(times) / 1e9


def run(
    workloads: Iterable[str], peers: Iterable[str], rounds: int, say: Callable[[str], None] = lambda text: None
) -> dict[str, Any]:
    """Return all measurements as one JSON-ready object."""
    pin_to_one_core()
    versions = {name: PEERS[name].version() for name in peers}
    systems = [GRADLAB, *(PEERS[name] for name, version in versions.items() if version)]
    report: dict[str, Any] = {
        "machine": {**environment(), "platform": platform.platform(), "threads": 1, "cores_used": 1},
        "peers": versions,
        "sgemm_gflops": sgemm_peak(),
        "rounds": rounds,
        "workloads": [],
    }
    for key in workloads:
        say(f"workload {key}")
        if key in WORKLOADS:
            report["workloads"].append(_steps(key, systems, rounds))
        elif key == "F":
            report["workloads"].append(_tiny(systems, rounds))
        elif key == "G":
            report["workloads"].append(_sweep(systems))
        elif key == "H":
            report["workloads"].append(_study(systems))
        if report["workloads"]:  # what is measured is said at once: the whole table takes a quarter of an hour
            ratios = report["workloads"][-1]["ratios"]
            say("   " + ", ".join(f"{name} {ratio:.2f} × slower" for name, ratio in ratios.items()))
    report["probes"] = _probe_cost(rounds) if "B" in workloads else None
    report["sgemm_gflops"] = max(report["sgemm_gflops"], sgemm_peak())
    for row in report["workloads"]:
        if "gflops" in row["systems"]["gradlab"]["best"]:
            row["share_of_peak"] = row["systems"]["gradlab"]["best"]["gflops"] / report["sgemm_gflops"]
    return report


def _compare(key: str, title: str, variants: dict[str, list[dict[str, Any]]], unit: str) -> dict[str, Any]:
    """Return the row of a workload: every system with its best variant, and how many times slower than ours each is."""
    best = {
        name: (min if unit == "seconds" else max)(rows, key=lambda row: row[unit]) for name, rows in variants.items()
    }
    systems = {name: {"variants": rows, "best": best[name]} for name, rows in variants.items()}
    ours = best.pop("gradlab")[unit]
    theirs = {name: row[unit] for name, row in best.items()}
    ratios = {name: value / ours if unit == "seconds" else ours / value for name, value in theirs.items()}
    return {"key": key, "title": title, "systems": systems, "ratios": ratios}


def _steps(key: str, systems: list[System], rounds: int) -> dict[str, Any]:
    workload = WORKLOADS[key]
    setup = workload.setup()
    flops = setup.mlp.flops(sum(len(rows) for _, rows in setup.batches()), backward=True)
    runs = {(system.name, name): run for system in systems for name, run in system.variants(setup).items()}
    times: dict[tuple[str, str], list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()  # warm up
    for _ in range(rounds):
        for name, run in runs.items():
            times[name].append(run())
    variants: dict[str, list[dict[str, Any]]] = {}
    for (system, variant), measured in times.items():
        seconds = median(measured)
        row = {"variant": variant, "ms_per_step": 1e3 * seconds / setup.steps, "gflops": flops / seconds / 1e9}
        variants.setdefault(system, []).append(row)
    return _compare(key, workload.title, variants, "gflops")


def _probe_cost(rounds: int) -> dict[str, float]:
    """Return the share of time that the probes add to a trial of workload B, by cadence."""
    setup, engine = WORKLOADS["B"].setup(), Fused()
    cadences = {"none": (), "default": Measure().layers, "log": ("start", "log", "end")}
    times: dict[str, list[float]] = {name: [] for name in cadences}
    for _ in range(rounds + 1):
        for name, layers in cadences.items():
            chosen = replace(setup, moments=moments_of(Measure(layers=layers), setup.steps))
            start = perf_counter()
            engine.train(chosen)
            times[name].append(perf_counter() - start)
    bare = min(times.pop("none"))
    return {name: min(seconds) / bare - 1 for name, seconds in times.items()}


def _tiny(systems: list[System], rounds: int) -> dict[str, Any]:
    setup, rates = TINY.setup(), np.geomspace(1e-3, 0.3, TINY_NETS)
    few = rates[:: TINY_NETS // 16]  # a loop of torch nets is slow: time 16 and scale
    variants = {}
    GRADLAB.tiny(setup, few)
    for system in systems:
        if system.name == "sklearn":
            continue
        chosen, times = (few, 1) if system.name == "torch" else (rates, rounds)
        seconds = median(system.tiny(setup, chosen) for _ in range(times))
        variants[system.name] = [{"variant": "", "nets_per_minute": 60 * len(chosen) / seconds}]
    return _compare("F", TINY.title, variants, "nets_per_minute")


def _sweep(systems: list[System]) -> dict[str, Any]:
    """Time whole processes, including start-up and compilation; gradlab's kernels come from the cache."""
    names = [system.name for system in systems if system.name in _SWEEP]
    _process("gradlab")
    variants = {name: [{"variant": "whole process", "seconds": _process(name)}] for name in names}
    return _compare("G", "sweep of 64 architectures, 300 steps each, wall time of the process", variants, "seconds")


def _study(systems: list[System]) -> dict[str, Any]:
    """Time whole processes on all cores, including start-up and compilation."""
    chosen = {system.name: _STUDY[system.name] for system in systems if system.name in _STUDY}
    variants = {name: [{"variant": v, "seconds": _on_all_cores(code)}] for name, (v, code) in chosen.items()}
    title = f"the depth study, one seed, 50 epochs, wall time on all {len(ALL_CORES)} cores"
    return _compare("H", title, variants, "seconds")


def _on_all_cores(code: str) -> float:
    """Return the seconds until every process is done: one process on all cores, or one pinned to each core."""
    shares = len(ALL_CORES) if "{share}" in code else 1
    start = perf_counter()
    processes = []
    for share in range(shares):
        cores = {ALL_CORES[share]} if shares > 1 else set(ALL_CORES)
        words = code.format(share=share, shares=shares, cores=len(ALL_CORES))
        pin = f"import os; hasattr(os, 'sched_setaffinity') and os.sched_setaffinity(0, {cores})\n"
        processes.append(subprocess.Popen([sys.executable, "-c", pin + _SWEEP_HEAD + words], stdout=subprocess.DEVNULL))
    codes = [process.wait() for process in processes]
    if any(codes):
        raise EnvironmentFault(f"a benchmark process ended with code {max(codes)}")
    return perf_counter() - start


def _process(name: str) -> float:
    start = perf_counter()
    subprocess.run([sys.executable, "-c", _SWEEP_HEAD + _SWEEP[name]], check=True, capture_output=True)
    return perf_counter() - start
