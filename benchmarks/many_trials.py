"""Plan, run, store, open and summarize 20,000 trials of a trivial network, and time each stage.

python benchmarks/many_trials.py [TRIALS] [trivial|small] [pool|processes|inline]

The overhead is the cost of a trial, in core seconds, beyond `run_trial` itself in a plain loop: submitting, recording
and committing it.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import gradlab
from gradlab.arithmetic import one_blas_thread
from gradlab.runs.worker import run_trial

TRIVIAL = {
    "data": {"task": "identity", "dim": 2, "samples": 16},
    "model": {"depth": 1, "width": 4, "activation": "tanh"},
    "train": {"loss": "mse", "optimizer": "sgd", "lr": 0.1, "batch": "full", "steps": 20},
}
SMALL = {  # about 5 ms on one core
    "data": {"task": "identity", "dim": 32, "samples": 512},
    "model": {"depth": 4, "width": 32},
    "train": {"loss": "mse", "optimizer": "adam", "lr": 0.1, "batch": 64, "steps": 150},
}


def study(trials: int, base: dict[str, Any], groups: int = 2000) -> dict[str, Any]:
    """Return a study with this many trials of one network, over several learning rates."""
    groups = min(groups, trials)
    return {
        "question": "How many trials can be kept?",
        "base": base,
        "axes": {"train.lr": {"log": [1e-4, 1.0], "points": groups}},
        "seeds": trials // groups,
        "figures": [],
    }


def time_bare_trials(trials: Any) -> float:
    """Return the seconds per trial of `run_trial` in a plain loop, best of three."""
    run_trial(trials[0])
    times = []
    with one_blas_thread():
        for _ in range(3):
            start = perf_counter()
            for trial in trials:
                run_trial(trial)
            times.append((perf_counter() - start) / len(trials))
    return min(times)


def measure_run(trials: int, base: dict[str, Any], executor: str = "pool") -> dict[str, Any]:
    """Return times, memory and overhead of all stages."""
    with TemporaryDirectory() as folder:
        start = perf_counter()
        plan = gradlab.plan(study(trials, base))
        planned = perf_counter() - start
        bare = time_bare_trials(plan.trials[:: max(1, len(plan.trials) // 300)])
        out, moments = Path(folder) / "run", []
        gradlab.run(
            plan,
            out=out,
            executor=executor,
            on_start=lambda tally: moments.append(perf_counter()),
            on_results=lambda results: moments.append(perf_counter()),
        )
        ended = perf_counter()
        ran = moments[-1] - moments[0]
        start = perf_counter()
        rows = len(gradlab.open_run(out).table())
        summarized = perf_counter() - start
        workers = 1 if executor == "inline" else os.cpu_count() or 1
        return {
            "trials": len(plan.trials),
            "executor": executor,
            "plan_seconds": planned,
            "run_seconds": ran,
            "report_seconds": ended - moments[-1],
            "trials_per_second": len(plan.trials) / ran,
            "bare_ms_per_trial": bare * 1e3,
            "overhead_ms_per_trial": (ran * workers / len(plan.trials) - bare) * 1e3,
            "overhead_share": ran * workers / (len(plan.trials) * bare) - 1,
            "open_and_table_seconds": summarized,
            "table_rows": rows,
            "chunks": len(list((out / "results").iterdir())),
            "megabytes": sum(file.stat().st_size for file in out.rglob("*") if file.is_file()) / 1e6,
            "peak_memory_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
        }


if __name__ == "__main__":
    base = SMALL if "small" in sys.argv else TRIVIAL
    count = next((int(word) for word in sys.argv[1:] if word.isdigit()), 20_000)
    executor = next((word for word in sys.argv[1:] if word in ("inline", "pool", "processes")), "pool")
    print(json.dumps(measure_run(count, base, executor), indent=1))
