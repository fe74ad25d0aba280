"""From `gradlab run STUDY` typed to its report written, by phase: with empty caches (cold) and with full ones (warm).

python benchmarks/phases.py [STUDY] [ROUNDS]

Each row is a process of its own; of several rounds the fastest is shown. `drawing` is what figures add to the report
(the same run without them is timed as well); `typed` is the command itself, wall time from outside.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from tempfile import TemporaryDirectory
from time import perf_counter, time

PHASES = ("import", "plan", "kernels", "audit", "train", "report", "drawing", "all", "typed")

ONE_RUN = """
import json, sys
from time import time
began, study, figures, out = float(sys.argv[1]), sys.argv[2], sys.argv[3] == "figures", sys.argv[4]
marks = [began]
from gradlab import api
marks.append(time())
planned = api.plan(study)
marks.append(time())
from gradlab.trials.setup import prepare
from gradlab.engines.fused import Fused
if any(group.engine == "fused" for group in planned.groups):
    for trial in {trial.config.train.precision: trial for trial in planned.trials}.values():
        Fused().trainer(prepare(trial))
marks.append(time())
ends = []
api.run(planned, out=out, figures=figures, on_audit=lambda audit: marks.append(time()),
        on_results=lambda results: ends.append(time()))
marks += [ends[-1], time()]
print(json.dumps([b - a for a, b in zip(marks, marks[1:])]))
"""


def phases(study: str, cache: str, figures: bool) -> dict[str, float]:
    """Seconds of one run's phases, in a process of its own."""
    with TemporaryDirectory() as out:
        words = [sys.executable, "-c", ONE_RUN, str(time()), study, "figures" if figures else "none", f"{out}/run"]
        found = subprocess.run(words, env=os.environ | {"GRADLAB_CACHE": cache}, check=True, stdout=subprocess.PIPE)
    seconds = json.loads(found.stdout.splitlines()[-1])
    return dict(zip(PHASES, seconds, strict=False)) | {"all": sum(seconds)}


def typed(study: str, cache: str) -> float:
    """Seconds of the command, as a user types it."""
    with TemporaryDirectory() as out:
        words = [sys.executable, "-m", "gradlab", "run", study, "--out", f"{out}/run"]
        start = perf_counter()
        subprocess.run(words, env=os.environ | {"GRADLAB_CACHE": cache}, check=True, capture_output=True)
        return perf_counter() - start


def timed(study: str, cache: str) -> dict[str, float]:
    """One row of the table: a run with figures, one without (its caches are warm by then), and the command."""
    whole = phases(study, cache, figures=True)
    bare = phases(study, cache, figures=False)["report"]
    return whole | {"report": min(bare, whole["report"]), "drawing": max(whole["report"] - bare, 0.0)}


def main() -> None:
    """Print the table."""
    study = sys.argv[1] if len(sys.argv) > 1 else "identity"
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    rows: dict[str, dict[str, float]] = {}
    with TemporaryDirectory() as cache:
        rows["cold"] = timed(study, cache)
        found = [timed(study, cache) | {"typed": typed(study, cache)} for _ in range(rounds)]
        rows["warm"] = min(found, key=lambda row: row["all"])
    with TemporaryDirectory() as cache:
        rows["cold"]["typed"] = typed(study, cache)
    print(f"gradlab run {study}, seconds on {os.cpu_count()} cores, fastest of {rounds} warm rounds\n")
    print("      " + "".join(f"{phase:>9}" for phase in PHASES))
    for name, row in rows.items():
        print(f"{name:<6}" + "".join(f"{row[phase]:9.2f}" for phase in PHASES))


if __name__ == "__main__":
    main()
