"""A/A first: the baseline against itself on two sets of seeds, and one seed twice. It says what is noise.

Its runs stand beside that of the comparison, and its seeds are none of the comparison's: claims are frozen before any
result that they are judged by.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gradlab.analysis.comparison import compare
from gradlab.analysis.measured import Measured
from gradlab.analysis.rules.base import FEWEST
from gradlab.analysis.rules.paired import smallest_effect
from gradlab.comparing.commands import Arm, Command, plan_commands, run_commands
from gradlab.running.start import RunOptions
from gradlab.runs.coordinator import Tally
from gradlab.words import counted, written

FIRST, SECOND = 1_000_000, 2_000_000
"""Where the two sets of seeds begin: far from anybody's 0, 1, 2, …"""
SETS = ("first set", "second set")
SMALL = 0.5
"""Share of the spread over seeds up to which pairing by seed still gains much, if one seed gives two numbers."""


@dataclass(frozen=True)
class Noise:
    """How far the same code is apart from itself, on the scale that decides."""

    spread: float
    """Standard deviation over seeds; of logarithms where ratios matter."""
    logs: bool
    runs: int
    told_apart: bool
    twice: tuple[float, float] | None
    """What one seed gave twice."""

    def sentences(self, seeds: int, baseline: str) -> tuple[str, ...]:
        """What a reader has to know before any difference."""
        told = ", not told apart" if self.runs >= 2 * FEWEST else ""  # fewer can never be told apart
        if self.told_apart:
            told = ", yet they were told apart, which happens by chance in 1 of 20"
        first = f"A/A: {baseline} against itself on other seeds, {self.runs} runs: spread over seeds "
        first += f"{self._said(self.spread)} (standard deviation){told}."
        effect = smallest_effect(seeds)
        if effect is None:
            able = f"{counted(seeds, 'seed')} can settle no difference, however large: 5 are the fewest."
        else:
            least = self._said(effect * self.spread * math.sqrt(2))
            able = (
                f"{counted(seeds, 'seed')} can show a difference of about {least} or more, and less where pairs agree."
            )
        return (first, able, *self._deterministic())

    def _deterministic(self) -> tuple[str, ...]:
        if self.twice is None:
            return ()
        a, b = self.twice
        if a == b or (math.isnan(a) and math.isnan(b)):
            return ("One seed run twice gives the same number to the last digit: deterministic.",)
        gap = abs(math.log(b / a) if self.logs and a > 0 and b > 0 else b - a) / math.sqrt(2)
        share = gap / self.spread if self.spread else math.inf
        cost = "pairing by seed gains little" if share > SMALL else "pairing by seed still gains most of what it can"
        said = f"{min(share, 99):.2g} times the spread over seeds"
        return (f"Not deterministic: one seed run twice gives {written(a)} and {written(b)}, {said}; {cost}.",)

    def _said(self, size: float) -> str:
        return f"{written(100 * math.expm1(size), 2)} %" if self.logs else written(size, 2)


def with_noise(
    command: Command, arms: Mapping[str, Arm], sets: int, how: RunOptions, options: Mapping[str, Any], seeds: int
) -> tuple[str, ...]:
    """Run the baseline, the first arm, against itself; gives the sentences, or none if nothing can be said."""
    baseline, arm = next(iter(arms.items()))
    plain = replace(command, trace=False)
    quiet = replace(how, figures=False, project=None, give_up=2, on_audit=None, on_results=None, on_report=None)

    def run(which: str, phase: str, offsets: Mapping[str, int], count: int) -> Measured:
        def begin(tally: Tally) -> None:
            tally.phase = phase
            if how.on_start is not None:
                how.on_start(tally)

        folder = beside(how.folder, which)
        shifted = {name: _shifted(arm, offset) for name, offset in offsets.items()}
        named = {"name": which, "question": f"How far is {baseline} apart from itself?", "metric": options["metric"]}
        plan = plan_commands(plain, shifted, count, **named)
        return run_commands(plan, plain, replace(quiet, out=folder, on_start=begin)).measured

    measured = run("aa", "A/A", dict(zip(SETS, (FIRST, SECOND), strict=True)), sets)
    if measured.trials and measured.counts()["failed"] == len(measured.trials):
        return (f"A/A: no run of {baseline} gave a number.",)
    again = run("twice", "one seed twice", {"first time": FIRST, "second time": FIRST + REPEAT}, 1)
    noise = read_noise(measured, again)
    if noise is None:
        return (f"A/A: too few runs of {baseline} gave a number to say what its noise is.",)
    return noise.sentences(seeds, baseline)


REPEAT = 1 << 40
"""Added to an offset, so that a second run of the same seeds is a trial of its own; the command never sees it."""


def _shifted(arm: Arm, offset: int) -> Arm:
    return replace(arm, settings={**arm.settings, "seeds from": offset}, offset=offset % REPEAT)


def read_noise(measured: Measured, again: Measured | None = None) -> Noise | None:
    """The noise in two sets of seeds, and in one seed run twice; None of too few numbers."""
    headline = measured.study.headline
    assert headline is not None
    metric = measured.metric(headline.metric)
    values = [_finite(measured, headline.metric, name) for name in SETS]
    everything = [value for group in values for value in group]
    if min(map(len, values)) < 2:
        return None
    logs = metric.on_logs and min(everything) > 0
    scaled = [np.log(group) if logs else np.array(group) for group in values]
    freedom = sum(len(group) - 1 for group in scaled)
    spread = math.sqrt(sum(float(((group - group.mean()) ** 2).sum()) for group in scaled) / freedom)
    found = compare(measured, headline.metric, *SETS)
    both = [] if again is None else [_finite(again, headline.metric, name) for name in again.group_names]
    twice = (both[0][0], both[1][0]) if both and all(both) else None
    return Noise(spread, logs, len(everything), found is not None and found.settled, twice)


def _finite(measured: Measured, metric: str, group: str) -> list[float]:
    return [float(v) for v in measured.values(metric, group).values() if v is not None and math.isfinite(v)]


def beside(folder: Path | None, which: str) -> Path | None:
    """The folder of a run that belongs to another."""
    return None if folder is None else folder.with_name(f"{folder.name}-{which}")
