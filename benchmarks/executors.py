"""What each executor costs: 20,000 trials of 5 ms, beside the model's prediction.

python benchmarks/executors.py [TRIALS] [ROUNDS] [EXECUTOR…]        # default: 20000 3 inline pool processes ray slurm

Two measures, because the machine may be shared with others. CPU: core seconds of this process and all it has started,
from the first result to the last, per trial, over those of `run_trial` in a plain loop; others' work hardly changes it.
Time: seconds from the start to the last result, beside the simulation of `gradlab.runs.scaling` for the same trials; it
means little on a machine that is busy with something else. Of several rounds the one with the least CPU counts. `slurm`
is submitit's local mode. The numbers and a Markdown table go to stdout.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

import gradlab
import gradlab.runs
from gradlab.engines.base import one_blas_thread
from gradlab.parts import BUILT_IN
from gradlab.runs.executors.base import Executor
from gradlab.runs.scaling import forecast
from gradlab.runs.worker import run_bundle, run_trial
from many_trials import SMALL, study

EXECUTORS = ("inline", "pool", "processes", "ray", "slurm")
TICK = os.sysconf("SC_CLK_TCK")


def time_alone(trials: Sequence[Any]) -> float:
    """Return the CPU seconds of a trial by itself, best of five."""
    run_trial(trials[0])
    times = []
    with one_blas_thread():
        for _ in range(5):
            start = process_time()
            for trial in trials:
                run_trial(trial)
            times.append((process_time() - start) / len(trials))
    return min(times)


def cpu_seconds() -> tuple[float, float]:
    """Return the CPU seconds of this process, and of all that descend from it, ended children included."""
    parents: dict[int, list[int]] = {}
    used: dict[int, float] = {}
    for pid, words in _processes():
        parents.setdefault(int(words[1]), []).append(pid)
        used[pid] = sum(map(int, words[11:15])) / TICK
    todo, total = list(parents.get(os.getpid(), ())), 0.0
    while todo:
        pid = todo.pop()
        total += used[pid]
        todo += parents.get(pid, ())
    return process_time(), total


def _processes() -> Iterator[tuple[int, list[str]]]:
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            yield int(name), Path("/proc", name, "stat").read_text().rpartition(")")[2].split()


def measure_executor(plan: Any, name: str, workers: int, folder: Path) -> dict[str, float]:
    """Run all trials once."""
    settings = {"mode": "local", "cpus": str(workers), "folder": str(folder / "jobs")} if name == "slurm" else {}
    moments: list[tuple[float, int, float, float]] = []
    done = todo = 0

    def begin_with(tally: Any) -> None:
        nonlocal todo
        todo = tally.todo
        moments.append((perf_counter(), 0, *cpu_seconds()))

    def note(results: Sequence[Any]) -> None:
        nonlocal done
        done += len(results)
        if len(moments) < 2 or done == todo:
            moments.append((perf_counter(), done, *cpu_seconds()))

    alone = time_alone(plan.trials[:: max(1, len(plan.trials) // 300)])
    gradlab.run(
        plan,
        out=folder / name,
        executor=name,
        workers=workers,
        settings=settings,
        figures=False,
        on_start=begin_with,
        on_results=note,
    )
    begin, first, last = moments[0], moments[1], moments[-1]
    trials = last[1] - first[1]
    own, others = (last[2] - first[2]) / trials, (last[3] - first[3]) / trials
    return {
        "alone_ms": alone * 1e3,
        "cpu_ms": (own + others) * 1e3,
        "overhead_ms": (own + others - alone) * 1e3,
        "overhead_share": (own + others) / alone - 1,
        "coordinator_ms": own * 1e3,
        "first_result_seconds": first[0] - begin[0],
        "seconds": last[0] - begin[0],
    }


def predict(name: str, trials: int, seconds: float, cores: int) -> float:
    """Return the seconds that the model expects."""
    part = BUILT_IN.get("executor", name)
    assert issubclass(part, Executor)
    return forecast(trials, seconds, cores, part.costs, part.bundle_seconds).seconds


def main(trials: int, rounds: int, names: list[str]) -> None:
    """Measure every executor, print the numbers and the table."""
    workers = os.cpu_count() or 1
    plan = gradlab.plan(study(trials, SMALL, groups=max(1, trials // 10)))
    run_bundle(plan.trials[:1], gradlab.runs.Monitor())
    found: dict[str, dict[str, float]] = {}
    for name in names:
        for _ in range(rounds):
            with TemporaryDirectory() as folder:
                one = measure_executor(plan, name, workers, Path(folder))
            print(name, json.dumps(one), file=sys.stderr, flush=True)
            if name not in found or one["cpu_ms"] < found[name]["cpu_ms"]:
                found[name] = one
        cores = 1 if name == "inline" else workers
        found[name]["model_seconds"] = predict(name, len(plan.trials), found[name]["alone_ms"] / 1e3, cores)
    print(json.dumps(found, indent=1))
    print("\n| executor | trial alone | CPU per trial | overhead | share | first result | run | model |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, one in found.items():
        print(
            f"| `{name}` | {one['alone_ms']:.2f} ms | {one['cpu_ms']:.2f} ms | {one['overhead_ms']:.2f} ms | "
            f"{one['overhead_share']:.1%} | {one['first_result_seconds']:.1f} s | {one['seconds']:.0f} s | "
            f"{one['model_seconds']:.0f} s |"
        )


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    chosen = [word for word in sys.argv[1:] if word in EXECUTORS] or list(EXECUTORS)
    main((numbers or [20_000])[0], (numbers[1:] or [3])[0], chosen)
