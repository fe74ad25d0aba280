"""The numbers that a claim rests on: its sides, seed by seed, and what the test of them gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import isinf

import numpy as np

from gradlab.analysis.estimate import Estimate
from gradlab.analysis.measured import Measured
from gradlab.analysis.rules import Median, Needed, Paired, Rule, pooled_arms
from gradlab.analysis.rules.prediction import bootstrap_interval, permutation_p
from gradlab.analysis.sample import Sample, apart, divided, joint_copies, pooled
from gradlab.spec.claims import At, Claim
from gradlab.words import describe_layer, listed, written

# What a test gives: p-values of the ways it can come out, and the numbers they rest on.

NEVER = 1.0


@dataclass(frozen=True)
class LostCell:
    """A group (or pair of groups) of a pool in which some seeds diverged or have no number."""

    label: str
    seeds: int
    planned: int


@dataclass(frozen=True)
class Reading:
    """What was measured on one side, or between two."""

    label: str
    estimate: Estimate
    zeros: int = 0
    """Exact zeros among the values."""
    diverged: int = 0
    unknown: int = 0
    """Seeds that failed, are missing or have no number: they count against every conclusion."""
    permutation: float | None = None
    bootstrap: tuple[float, float] | None = None
    """Shown beside, not deciding."""
    ratio: bool = False
    end_to_end: bool = False
    """Whether it compares the first with the last of an order."""
    lost_cells: tuple[LostCell, ...] = ()
    """Of a pool: where both sides diverged, or one has no number."""
    diverged_cells: tuple[LostCell, ...] = ()
    """Of a pool or a grid: where networks (of two sides, those of one) diverged, and so count as the worst there is."""
    copies: int = 0
    """Seeds whose network is a copy of another's; they are not counted."""
    copied: str = ""
    """Of two sides the one that is the same under several seeds, if only one is."""
    constant: bool = False
    """Whether one of two sides is the same network under several seeds, and the other is not."""
    equal: bool = False
    """Whether two sides are equal in every seed."""


@dataclass(frozen=True)
class Test:
    """One-sided p-values of the ways a claim can come out, and what they rest on."""

    holds: float
    """Of its contrary: small if the claim holds."""
    direction: float
    """Small if at least the direction is right."""
    fails: float
    """Of the claim itself: small if it does not hold."""
    rule: str
    assumes: str
    readings: tuple[Reading, ...]
    needed: Callable[[float], Needed | None]
    """Level -> seeds that would settle it."""
    seeds: int
    """Planned seeds of what decides."""
    groups: tuple[str, ...]
    """The groups whose further seeds would settle it."""
    remark: str = ""
    order: bool = False
    """Whether it is a chain of steps, which one reversed step refutes."""
    same: float = NEVER
    """Of `there is a difference that matters`: small if there is none."""
    margin: str = ""
    """What matters, in words."""
    part: str = ""
    """Of a claim made of several groups, layers or steps: the one that holds it back."""
    equal_part: str = ""
    """Of such a claim: the one in which there is no difference that matters."""
    reciprocal: bool = False
    """Whether its p-values are 1/E of e-values; those that also count tests of the first so many seeds are not."""

    @property
    def copies(self) -> str:
        """In words, if seeds are copies of one network: they count once."""
        copied = [reading for reading in self.readings if reading.copies]
        if not copied:
            return ""
        labels = ", ".join(dict.fromkeys(reading.copied or reading.label for reading in copied))
        most = max(reading.copies for reading in copied)
        if min(reading.estimate.n for reading in copied) > 1:
            return f"{most} seeds gave the same numbers as an earlier one ({labels}) and count as one network with it"
        return (
            f"{most + 1} seeds gave the same numbers ({labels}): nothing that was measured depends on the seed, so "
            "they count as one network"
        )

    @property
    def equal(self) -> str:
        """In words, if two sides are equal in every seed."""
        return "both sides are equal to the last digit in every seed" if any(r.equal for r in self.readings) else ""

    @property
    def p(self) -> float:
        """Two-sided, of whichever way the claim itself comes out. The direction has no part in it: it is shown far more
        easily, and would lend its strength to the steps of Holm that come after.
        """
        return 2 * min(self.holds, self.fails, self.same)

    @property
    def lost_cells(self) -> tuple[LostCell, ...]:
        """Of all its readings."""
        return tuple(dict.fromkeys(cell for reading in self.readings for cell in reading.lost_cells))

    @property
    def remarks(self) -> str:
        """What a reader of the verdict has to know, whatever it is, in words."""
        cells = dict.fromkeys(cell for reading in self.readings for cell in reading.diverged_cells)
        words = f"; networks that diverged count as the worst there is: {name_cells(tuple(cells))}" if cells else ""
        if any(reading.constant and not reading.copies for reading in self.readings):
            words += "; one side is the same network under several seeds, so only the other varies"
        return words

    @property
    def unknown(self) -> int:
        """The most seeds of any reading of which nothing is known."""
        return max(reading.unknown for reading in self.readings)


def name_cells(cells: Sequence[LostCell]) -> str:
    """The first three of them, with their seeds."""
    return listed([f"{cell.label} ({cell.seeds} of {cell.planned} seeds)" for cell in cells], 3)


def every(tests: Sequence[Test]) -> Test:
    """A claim made of several groups holds if it holds of each; it fails if it fails of one (Bonferroni)."""
    weakest = max(tests, key=lambda test: test.holds)
    failing, equal = min(tests, key=lambda test: test.fails), min(tests, key=lambda test: test.same)
    fails, same = (min(1.0, len(tests) * p) for p in (failing.fails, equal.same))
    decides = weakest if weakest.holds <= min(fails, same) else failing if fails <= same else equal
    return replace(
        decides,
        holds=weakest.holds,
        direction=max(test.direction for test in tests),
        fails=fails,
        same=same,
        readings=tuple(reading for test in tests for reading in test.readings),
        needed=decides.needed if decides is weakest else lambda level: decides.needed(level / len(tests)),
        remark="; ".join(dict.fromkeys(filter(None, (test.remark for test in tests)))),
        part=decides.part or f"{decides.readings[-1].label} (p {say_p(decides.p)})",
        equal_part=equal.equal_part or equal.readings[-1].label,
    )


def say_p(p: float) -> str:
    """`= 0.021`, `< 10⁻¹⁰`."""
    return "< 10⁻¹⁰" if p < 1e-10 else f"= {written(min(p, 1.0), 2)}"


def read_one(label: str, rule: Rule, sample: Sample) -> Reading:
    """One side."""
    return Reading(
        label,
        rule.estimate,
        sample.tally.zeros,
        sample.tally.diverged,
        sample.unknown,
        None,
        _bootstrap(rule),
        copies=len(sample.copies),
    )


def read_two(label: str, rule: Paired, first: Sample, second: Sample) -> Reading:
    """One side against the other."""
    zeros = sum((0.0, 0.0) in (ends, second.ends.get(seed)) for seed, ends in first.ends.items()) if rule.logs else 0
    unknown = sum(low != high for low, high in zip(rule.low, rule.high, strict=True))
    permutation = None if rule.numbers is None else permutation_p(rule.numbers)
    diverged = first.tally.diverged + second.tally.diverged
    return Reading(
        label,
        rule.estimate,
        zeros,
        diverged,
        unknown,
        permutation,
        _bootstrap(rule),
        rule.logs,
        copies=len(joint_copies((first, second))),
        constant=bool(first.copies) != bool(second.copies),
        equal=all(low == high == 0 for low, high in zip(rule.low, rule.high, strict=True)),
    )


def _bootstrap(rule: Rule) -> tuple[float, float] | None:
    if isinstance(rule, Paired):
        found = None if rule.numbers is None else bootstrap_interval(rule.numbers)
        if found is None or not rule.logs:
            return found
        low, high = np.exp(np.minimum(found, 709.0))
        return float(low), float(high)
    if isinstance(rule, Median) and rule.low == rule.high and np.isfinite(rule.low).all():
        return bootstrap_interval(np.array(rule.low))
    return None


# The numbers a claim rests on, seed by seed.


@dataclass(frozen=True)
class Side:
    """One side of a claim: a group (or several, of which the mean is taken seed by seed), and where in it."""

    groups: tuple[str, ...]
    at: At
    over: At | None = None
    """A second place, by whose number the first one's is divided."""
    name: str = ""

    @property
    def label(self) -> str:
        """For people."""
        name = self.name or self.groups[0]
        if self.over is not None:
            return f"{name} ({describe_layer(self.at.layer)} / {describe_layer(self.over.layer)})"
        return name if self.at.layer is None else f"{name}, {describe_layer(self.at.layer)}"


def cells_of_side(measured: Measured, metric: str, side: Side) -> list[Sample]:
    """What every planned seed gave in each group of this side, or counts as."""
    samples = [measured.sample(metric, group, side.at) for group in side.groups]
    if side.over is not None:
        below = [measured.sample(metric, group, side.over) for group in side.groups]
        samples = [divided(top, bottom) for top, bottom in zip(samples, below, strict=True)]
    return samples


def sample_of_side(measured: Measured, metric: str, side: Side) -> Sample:
    """The same over all groups of the side: their mean, seed by seed."""
    return pooled(cells_of_side(measured, metric, side), measured.metric(metric).bounds)


def is_measured(sample: Sample) -> bool:
    """Whether there is anything to judge: a number, or a network that diverged instead of giving one."""
    return bool(sample.known) or sample.tally.nan > 0 or sample.tally.diverged > 0


# The sides that a claim is about, and one side against another.


def instances(measured: Measured, claim: Claim, rows: Sequence[Sequence[str]]) -> list[list[Side]]:
    """The sides of every instance of a claim: of each row of groups (or all of them pooled), of each layer."""
    if claim.pooled and len(rows) > 1:
        names = claim.selectors or ("all groups",)
        pools = [tuple(column) for column in zip(*rows, strict=True)]
        named = [(pool, names[index] if index < len(names) else "") for index, pool in enumerate(pools)]
        rows_of_pools = [[(pool, f"mean of {name}") for pool, name in named]]
    else:
        said = name_groups(measured, [group for row in rows for group in row])
        rows_of_pools = [[((group,), said[group]) for group in row] for row in rows]
    found = []
    for row in rows_of_pools:
        for places in _places(measured, claim, row[0][0][0]):
            if len(places) == 2 and len(row) == 2:
                found.append([Side(pool, places[0], places[1], name) for pool, name in row])
            else:
                found.append([Side(pool, at, None, name) for pool, name in row for at in places])
    return found


def name_groups(measured: Measured, groups: Sequence[str]) -> dict[str, str]:
    """What people call these groups, without what all of them share: the claim says that."""
    settings = [measured.entries[name].group.settings for name in groups]
    shared = [path for path in measured.names.axes if len({str(own.get(path)) for own in settings}) == 1]
    return {name: measured.names.group(name, without=shared) or measured.names.group(name) for name in groups}


def _places(measured: Measured, claim: Claim, group: str) -> list[tuple[At, ...]]:
    if claim.at.layer != "all":
        return [claim.at.places()]
    return [(place,) for place in measured.places(claim.at, group)]


def against(
    measured: Measured, claim: Claim, first: Side, second: Side, *, logs: bool | None = None
) -> tuple[Paired, Reading] | None:
    """The rule for first against second, and what was read."""
    metric = measured.metric(str(claim.metric))
    samples = [sample_of_side(measured, metric.name, side) for side in (first, second)]
    if not all(map(is_measured, samples)):
        return None
    ratios = True if first.over is not None else logs
    cells = list(zip(*(cells_of_side(measured, metric.name, side) for side in (first, second)), strict=True))
    rule = pooled_arms(metric, cells, logs=ratios, resolution=measured.resolution(metric.name))
    if rule is None:
        return None
    names = (first.label, second.label)
    if first.groups == second.groups:
        names = (describe_layer(first.at.layer), describe_layer(second.at.layer))
    reading = read_two(f" {'/' if rule.logs else '−'} ".join(names), rule, *samples)
    if reading.constant:
        reading = replace(reading, copied=names[0] if samples[0].copies else names[1])
    if len(cells) > 1:
        lost = _cells(measured, first, second, cells, lambda low, high: low != high)
        one_sided = _cells(measured, first, second, cells, lambda low, high: low == high and isinf(low))
        reading = replace(reading, lost_cells=lost, diverged_cells=one_sided)
    return rule, reading


def diverged_cells(measured: Measured, metric: str, groups: Sequence[str]) -> tuple[LostCell, ...]:
    """The groups of a pool or a grid in which networks diverged."""
    samples = {group: measured.sample(metric, group) for group in groups}
    return tuple(
        LostCell(measured.names.group(group), sample.tally.diverged, sample.tally.planned)
        for group, sample in samples.items()
        if sample.tally.diverged
    )


def _cells(
    measured: Measured,
    first: Side,
    second: Side,
    cells: Sequence[tuple[Sample, Sample]],
    holds: Callable[[float, float], bool],
) -> tuple[LostCell, ...]:
    """The cells of a pool that have seeds whose difference lies between ends of which something holds."""
    found = []
    for groups, (left, right) in zip(zip(first.groups, second.groups, strict=True), cells, strict=True):
        both = [(ends, right.ends[seed]) for seed, ends in left.ends.items() if seed in right.ends]
        seeds = sum(holds(*apart(*pair, logs=False)) for pair in both)
        if seeds:
            settings = [measured.entries[name].group.settings for name in groups]
            differing = [path for path in measured.names.axes if settings[0].get(path) != settings[1].get(path)]
            label = measured.names.group(groups[0], without=differing) or groups[0]
            found.append(LostCell(label, seeds, len(left.ends)))
    return tuple(found)
