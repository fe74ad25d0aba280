"""A million trials: what the coordinator needs to hold and store them, and to open and tabulate such a run.

python benchmarks/million_trials.py [TRIALS] [FOLDER]

Nothing is trained: the results of a few real trials are stored under the ids of all planned ones, so every file is as a
run of this size leaves it. Each stage runs in a process of its own and prints its seconds and its peak memory.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import gradlab
from gradlab.runs.executors.base import bundle_trials
from gradlab.runs.remote import pack_trials
from gradlab.runs.store.environment import environment
from gradlab.runs.store.folder import RunFolder
from gradlab.runs.worker import run_trial
from many_trials import TRIVIAL, study

CHUNK = 5000
"""Trials of a chunk: what comes in within the 30 seconds between commits of a long run, at 170 a second."""
CORES = 1000


def plan_trials(trials: int) -> Any:
    """Plan a study of so many trials, 500 seeds of each group, without stored parameters."""
    tree = study(trials, TRIVIAL, groups=max(1, trials // 500))
    return gradlab.plan({**tree, "measure": {"weights": [], "layers": ["end"]}})


def hold(trials: int, folder: Path) -> dict[str, Any]:
    """Plan, bundle and pack for 1,000 cores: what the coordinator holds before the first result."""
    plan = plan_trials(trials)
    bundles = bundle_trials(plan, plan.trials, CORES, 0.5)
    _, batches = pack_trials(bundles)
    return {"trials": sum(map(len, batches)), "bundles": len(bundles)}


def store(trials: int, folder: Path) -> dict[str, Any]:
    """Commit a result for every trial, as the coordinator does."""
    plan = plan_trials(trials)
    done = run_trial(plan.trials[0])
    start = perf_counter()
    with RunFolder.start(folder, plan, environment()) as run:
        for first in range(0, len(plan.trials), CHUNK):
            some = plan.trials[first : first + CHUNK]
            run.commit([replace(done, trial=trial, digest=f"{trial.id[:8]:0<16}") for trial in some])
    return {"ms_per_trial": (perf_counter() - start) / len(plan.trials) * 1e3}


def resume(trials: int, folder: Path) -> dict[str, Any]:
    """Take the folder again and look what is left, as a second `gradlab run` does."""
    with RunFolder.start(folder, plan_trials(trials), environment()) as run:
        return {"finished": len(run.records.finished)}


def status(trials: int, folder: Path) -> dict[str, Any]:
    """`gradlab status`."""
    return {"done": gradlab.status(folder).done}


def tabulate(trials: int, folder: Path) -> dict[str, Any]:
    """Open the run and make the table of all groups and metrics."""
    return {"rows": len(gradlab.open_run(folder).table())}


def export(trials: int, folder: Path) -> dict[str, Any]:
    """`gradlab export --to csv` of all trials and of all curves."""
    sizes = {}
    for table in ("trials", "curves", "layers"):
        out = folder.parent / f"{table}.csv"
        command = [sys.executable, "-m", "gradlab", "export", str(folder), "--to", "csv", "--table", table]
        subprocess.run([*command, "--out", str(out)], check=True)
        with open(out, "rb") as file:
            sizes[table] = sum(1 for _ in file) - 1
        out.unlink()
    return {"rows": sizes, "megabytes_of_export": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3}


STAGES = {stage.__name__: stage for stage in (hold, store, resume, status, tabulate, export)}


def main(trials: int, folder: Path) -> None:
    """Run every stage in a process of its own."""
    for name in STAGES:
        subprocess.run([sys.executable, __file__, name, str(trials), str(folder)], check=True)


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in STAGES:
        begin = perf_counter()
        found = STAGES[sys.argv[1]](int(sys.argv[2]), Path(sys.argv[3]))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        line = {"stage": sys.argv[1], "seconds": perf_counter() - begin, "megabytes": peak, **found}
        print(json.dumps(line), flush=True)
    else:
        count = int(sys.argv[1]) if sys.argv[1:] else 1_000_000
        if sys.argv[2:]:
            main(count, Path(sys.argv[2]) / "run")
        else:
            with TemporaryDirectory() as place:
                main(count, Path(place) / "run")
