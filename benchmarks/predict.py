"""How long `gradlab predict` takes: 64 architectures in one process, and every built-in study through the command line.

python benchmarks/predict.py [STUDY …]

Nothing comes from the cache of predictions. Seconds of processor time (the interpreter, its imports and the task's data
included where it says "command") and of wall time, each the best of three. Processor time is what a free core takes;
on a shared machine wall time says little.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time

ROUNDS = 3
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def time_architectures() -> tuple[float, float]:
    """(processor, wall) seconds for the bench's sweep of 64 architectures, the imports done."""
    import gradlab
    from gradlab.bench.workloads import sweep_tree
    from gradlab.theory import predicting

    best = (float("inf"), float("inf"))
    planned = gradlab.plan(sweep_tree())
    for _ in range(ROUNDS):
        predicting._KNOWN.clear()
        for file in Path(os.environ["GRADLAB_CACHE"]).rglob("theory/*.json"):
            file.unlink()
        processor, wall = process_time(), perf_counter()
        found = gradlab.predict(planned)
        assert len(found.groups) == 64
        best = (min(best[0], process_time() - processor), min(best[1], perf_counter() - wall))
    return best


def time_command(study: str) -> tuple[float, float]:
    """(processor, wall) seconds of `gradlab predict STUDY`; the task's data are unpacked, no prediction is known."""
    best = (float("inf"), float("inf"))
    for _ in range(ROUNDS):
        for file in Path(os.environ["GRADLAB_CACHE"]).rglob("theory/*.json"):
            file.unlink()
        before, wall = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter()
        subprocess.run([sys.executable, "-m", "gradlab", "predict", study], check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        best = (min(best[0], spent), min(best[1], perf_counter() - wall))
    return best


def main() -> None:
    """Print one row per measurement, the slowest study last."""
    from gradlab.studies import names

    print("| what | processor | wall |\n| --- | --- | --- |")
    processor, wall = time_architectures()
    print(f"| 64 architectures, imports done | {processor:.2f} s | {wall:.2f} s |", flush=True)
    chosen = sys.argv[1:] or names()
    rows = {study: time_command(study) for study in chosen}
    for study, (processor, wall) in sorted(rows.items(), key=lambda item: item[1]):
        print(f"| command, {study} | {processor:.2f} s | {wall:.2f} s |")


if __name__ == "__main__":
    os.environ |= ONE_THREAD
    with tempfile.TemporaryDirectory() as folder:
        os.environ["GRADLAB_CACHE"] = folder
        main()
