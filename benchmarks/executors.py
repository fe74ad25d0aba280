"""What each executor costs: 20,000 trials of 5 ms, beside the model's prediction.

python benchmarks/executors.py [TRIALS] [ROUNDS] [EXECUTOR…]        # default: 20000 2 inline pool processes ray slurm

Only running and committing is measured: no audit before it, no report after it. Two measures, because the machine may
be shared with others:

CPU    core seconds per trial of this process and of all that it has started, daemons of Ray included, from the 5 %
       mark (all workers have started and the kernels are loaded) to the last result. The overhead is what remains
       beyond bare trials: `run_trial` in a plain loop, in as many processes at once as the executor has workers.
       Others' work hardly changes it.
time   seconds from the start to the last result, beside the forecast of `gradlab.runs.executors.base` for the same
       trials. It means little on a machine that is busy with something else.

The executors take turns; of several rounds the one with the least CPU counts. `slurm` is submitit's local mode. The
numbers of every round go to stderr, the table to stdout.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

import gradlab
from gradlab.arithmetic import one_blas_thread
from gradlab.plans.plan import Plan
from gradlab.runs.coordinator import run_trials
from gradlab.runs.executors.base import Executor, forecast, named_executor
from gradlab.runs.store.environment import environment
from gradlab.runs.store.folder import RunFolder
from gradlab.runs.worker import run_trial
from many_trials import SMALL, study

EXECUTORS = ("inline", "pool", "processes", "ray", "slurm")
TICK = os.sysconf("SC_CLK_TCK")
SAMPLE = 200
"""Trials of the plain loop, run three times."""
WARM = 0.05
"""Share of the trials that are not counted, while workers start."""
DAEMONS = ("gcs_server", "raylet", "log_monitor", "monitor.py", "dashboard", "Agent")
"""Words in the command lines of Ray's own processes."""


# ---------------------------------------------------------------------- bare trials


def loop_trials(trials: int, barrier: Any = None) -> float:
    """Return the CPU seconds of a trial in a plain loop, best of three."""
    plan = make_plan(trials)
    sample = plan.trials[:: max(1, len(plan.trials) // SAMPLE)]
    times = []
    with one_blas_thread():
        for trial in sample:
            run_trial(trial)  # data and kernels are loaded
        if barrier is not None:
            barrier.wait()
        for _ in range(3):
            start = process_time()
            for trial in sample:
                run_trial(trial)
            times.append((process_time() - start) / len(sample))
    return min(times)


def _loop_beside(trials: int, barrier: Any, answers: Any) -> None:
    answers.put(loop_trials(trials, barrier))


def time_bare(trials: int, processes: int) -> float:
    """Return the CPU seconds of a bare trial while so many processes train at once."""
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(processes), context.Queue()
    others = [context.Process(target=_loop_beside, args=(trials, barrier, answers)) for _ in range(processes)]
    for other in others:
        other.start()
    found = [answers.get() for _ in others]
    for other in others:
        other.join()
    return sum(found) / len(found)


# ---------------------------------------------------------------------- CPU of all processes


def cpu_seconds() -> dict[str, float]:
    """Return the CPU seconds of this process, of its workers (ended ones included) and of Ray's daemons."""
    children: dict[int, list[int]] = {}
    used: dict[int, float] = {}
    names: dict[int, str] = {}
    for pid, words, name in _processes():
        children.setdefault(int(words[1]), []).append(pid)
        used[pid] = sum(map(int, words[11:15])) / TICK
        names[pid] = name
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = {"coordinator": process_time(), "workers": ended.ru_utime + ended.ru_stime, "daemons": 0.0}
    todo = list(children.get(os.getpid(), ()))
    while todo:
        pid = todo.pop()
        found["daemons" if any(word in names[pid] for word in DAEMONS) else "workers"] += used[pid]
        todo += children.get(pid, ())
    return found


def _processes() -> Iterator[tuple[int, list[str], str]]:
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            words = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()
            yield int(name), words, Path("/proc", name, "cmdline").read_text().replace("\0", " ")[:300]


# ---------------------------------------------------------------------- one run


def make_plan(trials: int) -> Plan:
    """Return the plan: a tenth as many learning rates, ten seeds each."""
    return gradlab.plan(study(trials, SMALL, groups=max(1, trials // 10)))


def measure_executor(plan: Plan, name: str, workers: int, folder: Path) -> dict[str, float]:
    """Run all trials once; gives milliseconds per trial and seconds of the run."""
    settings = {"mode": "local", "cpus": str(workers), "folder": str(folder / "jobs")} if name == "slurm" else {}
    executor = named_executor(name, plan, workers, settings)
    moments: list[tuple[float, int, dict[str, float]]] = []
    bundles = done = 0
    first = 0.0

    def note(results: Sequence[Any]) -> None:
        nonlocal bundles, done, first
        first = first or perf_counter()
        bundles, done = bundles + 1, done + len(results)
        if done == len(plan.trials) or (not moments and done >= WARM * len(plan.trials)):
            moments.append((perf_counter(), done, cpu_seconds()))

    begin = perf_counter()
    with RunFolder.start(folder / name, plan, environment(), "benchmarks/executors.py") as run:
        run_trials(plan, partial(executor.run_trials, plan), run, on_results=note)
    committed = perf_counter() - moments[-1][0]
    warm, last = moments
    trials = last[1] - warm[1]
    spent = {f"{who}_ms": (last[2][who] - warm[2][who]) / trials * 1e3 for who in last[2]}
    return {
        **spent,
        "cpu_ms": sum(spent.values()),
        "first_result_seconds": first - begin,
        "seconds": last[0] - begin,
        "last_commit_seconds": committed,
        "bundles": bundles,
    }


# ---------------------------------------------------------------------- all of them


def measure_all(trials: int, rounds: int, names: Sequence[str]) -> dict[str, dict[str, float]]:
    """Measure the executors in turn; gives the best round of each."""
    plan, cores = make_plan(trials), os.cpu_count() or 1
    loop_trials(trials)  # the kernels are compiled
    found: dict[str, dict[str, float]] = {}
    for number in range(rounds):
        for name in names:
            width = 1 if name == "inline" else cores
            bare = time_bare(trials, width) * 1e3
            with TemporaryDirectory() as folder:
                one = {"bare_ms": bare, **measure_executor(plan, name, width, Path(folder))}
            one["overhead_ms"] = one["cpu_ms"] - bare
            part = plan.catalog.get("executor", name)
            assert issubclass(part, Executor)
            one["model_seconds"] = forecast(trials, bare / 1e3, width, part.costs, part.bundle_seconds, cores).seconds
            print(number + 1, name, json.dumps(one), file=sys.stderr, flush=True)
            if name not in found or one["overhead_ms"] < found[name]["overhead_ms"]:
                found[name] = one
    return found


def make_table(found: dict[str, dict[str, float]]) -> str:
    """Return the results as a Markdown table."""
    lines = [
        "| executor | bundles | bare trial | CPU per trial | overhead | beyond `inline` | coordinator | daemons | "
        "first result | run | model |",
        f"| --- {'| ---: ' * 10}|",
    ]
    for name, one in found.items():
        bare, over = one["bare_ms"], one["overhead_ms"]
        inline = found.get("inline")
        beyond = "–" if inline is None or name == "inline" else f"{(over - inline['overhead_ms']) / bare:+.1%}"
        lines.append(
            f"| `{name}` | {one['bundles']:,} | {bare:.2f} ms | {one['cpu_ms']:.2f} ms | "
            f"{over:.2f} ms ({over / bare:.1%}) | {beyond} | {one['coordinator_ms']:.2f} ms | "
            f"{one['daemons_ms']:.2f} ms | "
            f"{one['first_result_seconds']:.1f} s | {one['seconds']:.0f} s | {one['model_seconds']:.0f} s |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    chosen = [word for word in sys.argv[1:] if word in EXECUTORS] or list(EXECUTORS)
    print(make_table(measure_all((numbers or [20_000])[0], (numbers[1:] or [2])[0], chosen)))
