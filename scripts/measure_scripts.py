"""Measure what docs/scripts.md promises of commands and tables. Minutes of one core.

python scripts/measure_scripts.py          # 500 null comparisons of each kind
python scripts/measure_scripts.py 50       # fewer
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np

import gradlab
from gradlab.analysis.claims import judge
from gradlab.analysis.measured import Measured
from gradlab.comparing.claims import default_claims
from gradlab.comparing.commands import make_arms, plan_commands
from gradlab.comparing.noise import SETS, read_noise
from gradlab.plans.plan import Plan
from gradlab.runs.store.records import MemoryChunk, Records
from gradlab.trials.outcome import LayerTable, Outcome, TrialResult, digest

FIRST, MOST = 5, 20
RUNS = 60
NO_LAYERS = LayerTable(np.empty(0, np.int64), np.empty(0, np.int64), (), np.empty(0))
Draw = Callable[[np.random.Generator, int], np.ndarray]
NOISES: dict[str, Draw] = {
    "normal": lambda random, n: random.normal(0, 1, n),
    "heavy-tailed (Student t, 3 degrees of freedom)": lambda random, n: random.standard_t(3, n),
    "one run in five goes badly": lambda random, n: random.normal(0, 1, n) + 6 * (random.random(n) < 0.2),
}
"""How a training is off the mean of its seed."""


def plan_null(names: tuple[str, str], seeds: int) -> Plan:
    """The plan of a comparison of two commands, as `gradlab ab` makes it."""
    made = gradlab.command("train {seed} {arm}", metric="val_loss", trace=False)
    claims = default_claims("val_loss", "lower", names)
    return plan_commands(made, make_arms(made, {name: {} for name in names}), seeds, metric="val_loss", claims=claims)


def fill(plan: Plan, numbers: dict[str, np.ndarray]) -> Measured:
    """What its trials would have left."""
    results = []
    for trial in plan.trials:
        outcome = Outcome("done", {"val_loss": float(numbers[trial.group][trial.seed])}, (), NO_LAYERS, np.empty(0))
        results.append(TrialResult(trial, outcome, None, 0.0, digest(trial.id, outcome, None)))
    return Measured(plan, Records([MemoryChunk.of(results)]))


def count_false_alarms(runs: int, draw: Draw) -> tuple[int, int]:
    """Of so many comparisons of two equal arms, how many were settled at any look, and at the last."""
    names = ("main", "try")
    plans = {seeds: plan_null(names, seeds) for seeds in range(FIRST, MOST + 1)}
    random, ever, last = np.random.default_rng(34), 0, 0
    for _ in range(runs):
        shared = random.normal(0, 1, MOST)
        numbers = {name: np.exp(1 + 0.02 * shared + 0.01 * draw(random, MOST)) for name in names}
        outcomes = [judge(fill(plan, numbers))[0].outcome for plan in plans.values()]
        ever += any(outcome != "not settled" for outcome in outcomes)
        last += outcomes[-1] != "not settled"
    return ever, last


def compare_noise(runs: int) -> tuple[float, int]:
    """The spread that A/A says over the true one (root mean square), and how often it told equal sets apart."""
    plan, random = plan_null(SETS, 3), np.random.default_rng(35)
    found = []
    for _ in range(runs):
        noise = read_noise(fill(plan, {name: np.exp(1 + 0.02 * random.normal(0, 1, 3)) for name in SETS}))
        assert noise is not None
        found.append(noise)
    return float(np.sqrt(np.mean([noise.spread**2 for noise in found])) / 0.02), sum(n.told_apart for n in found)


def time_trials(folder: Path) -> tuple[float, float]:
    """Seconds of a trial of `sh`, run by Gradlab and run by itself."""
    script = folder / "train.sh"
    script.write_text("echo loss: 1.$1\n")
    words = ["sh", str(script)]
    start = perf_counter()
    for seed in range(RUNS):
        subprocess.run([*words, str(seed)], capture_output=True, check=True)
    alone = (perf_counter() - start) / RUNS
    command = gradlab.command([*words, "{seed}"], metric="loss")
    gradlab.compare(command, {"a": {}, "b": "x"}, 2)
    few, many = (_time(lambda n=n: gradlab.compare(command, {"a": {}, "b": "x"}, n)) for n in (2, 2 + RUNS // 2))
    return (many - few) / RUNS, alone


def time_table(folder: Path) -> float:
    """Processor seconds of `gradlab judge` on 10,000 rows: the whole process."""
    random, path = np.random.default_rng(1), folder / "results.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["arm", "task", "seed", "score"])
        for arm in range(10):
            for task in range(20):
                writer.writerows([f"m{arm}", f"t{task}", seed, random.normal(arm / 10)] for seed in range(50))
    words = [sys.executable, "-m", "gradlab", "judge", str(path)]
    seconds = []
    for _ in range(3):
        before = sum(os.times()[2:4])
        subprocess.run(words, capture_output=True, check=True)
        seconds.append(sum(os.times()[2:4]) - before)
    return min(seconds)


def _time(call: Callable[[], object]) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start


def main(runs: int) -> None:
    """Print every number with what it is about."""
    for name, draw in NOISES.items():
        ever, last = count_false_alarms(runs, draw)
        looks = MOST - FIRST + 1
        print(f"null comparisons, {name}: {ever} of {runs} settled at one of {looks} looks, {last} at the last")
    ratio, apart = compare_noise(runs)
    print(f"A/A of two times 3 seeds: {ratio:.2f} times the true spread; told apart in {apart} of {runs}")
    with tempfile.TemporaryDirectory() as folder:
        trial, alone = time_trials(Path(folder))
        print(f"a trial of sh: {1000 * trial:.0f} ms, of which sh itself {1000 * alone:.0f} ms")
        print(f"gradlab judge on 10,000 rows: {time_table(Path(folder)):.2f} s of one core")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500)
