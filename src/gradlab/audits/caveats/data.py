"""Caveats about data: rows that leak between splits, test sets that are small, unequal or part of training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradlab.audits.caveats.base import SPLITS, Caveat, Design, Remark
from gradlab.audits.pairs import read_settings
from gradlab.data.base import Array, Dataset, Rows, SplitName, Task
from gradlab.spec.claims import Claim
from gradlab.spec.config import Config
from gradlab.spec.metric import infer, split_of
from gradlab.words import counted, written

# Rows of one split that are also in another: equal bit by bit, or equal but for rounding and jitter.
#
# Rows are compared as the network gets them, whatever their targets: a test row that was trained on tests nothing, also
# if its target was changed a little.

NEAR = 3e-3
"""Rows count as nearly equal if their columns differ by this fraction of each column's spread (root mean square)."""
FEWEST_COLUMNS = 4
"""With fewer columns, rows of independent draws come that close by chance."""
DIRECTIONS = 8
"""Nearly equal rows are looked for in so many directions and then compared in all columns."""
MOST_ROWS = 50_000
"""Rows of a split that are looked up; of larger ones evenly spaced ones are."""
MOST_NUMBERS = 10**8
"""Nearly equal rows are not looked for in more numbers than this."""
CHUNK = 65_536


@dataclass(frozen=True)
class Repeats:
    """How many rows of `split` are also in `other`."""

    split: SplitName
    other: SplitName
    looked_up: int
    equal: int
    near: int
    """Those that are only nearly equal."""

    @property
    def count(self) -> int:
        """Equal or nearly so."""
        return self.equal + self.near

    @property
    def share(self) -> float:
        """Of the rows that were looked up."""
        return self.count / self.looked_up if self.looked_up else 0.0


def find_repeats(data: Dataset, split: SplitName, other: SplitName) -> Repeats:
    """Count the rows of one split that are also in another one."""
    rows, among = _thinned(data.rows(split)), data.rows(other)
    equal = _equal(data.inputs, rows, among)
    left = rows[~equal]
    near = _near(data.inputs, left, among) if len(left) and len(among) else 0
    return Repeats(split, other, len(rows), int(equal.sum()), near)


def _thinned(rows: Rows) -> Rows:
    if len(rows) <= MOST_ROWS:
        return rows
    return rows[np.linspace(0, len(rows) - 1, MOST_ROWS).astype(np.intp)]


def _equal(inputs: Array, rows: Rows, among: Rows) -> NDArray[np.bool_]:
    """Which of the rows are among others, bit by bit."""
    wanted = _keys(inputs[rows])
    left = set(wanted)
    found: set[bytes] = set()
    for start in range(0, len(among), CHUNK):
        found |= left.intersection(_keys(inputs[among[start : start + CHUNK]]))
    return np.array([key in found for key in wanted], bool)


def _keys(values: Array) -> list[bytes]:
    """One key per row; −0 and 0 are equal."""
    if values.size == 0:
        return []
    same = values + 0 if values.dtype.kind == "f" else values
    whole: list[bytes] = np.ascontiguousarray(same).view(f"V{same[0].nbytes}").ravel().tolist()
    return whole


def _near(inputs: Array, rows: Rows, among: Rows) -> int:
    """How many of the rows are nearly equal to one of the others."""
    columns = inputs.shape[1]
    if inputs.dtype.kind != "f" or columns < FEWEST_COLUMNS or (len(rows) + len(among)) * columns > MOST_NUMBERS:
        return 0
    from scipy.spatial import cKDTree  # takes a quarter of a second to import

    a, b = (np.asarray(inputs[chosen], np.float64) for chosen in (rows, among))
    with np.errstate(all="ignore"):
        spread = b.std(0)
        scale = np.where((spread > 0) & np.isfinite(spread), spread, 1.0)
        a, b = a / scale, b / scale
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        return 0
    directions = np.eye(columns)
    if columns > DIRECTIONS:  # orthonormal: distances never grow
        directions = np.linalg.qr(np.random.default_rng(0).standard_normal((columns, DIRECTIONS)))[0]
    reach = NEAR * float(np.sqrt(columns))
    distance, nearest = cKDTree(b @ directions).query(a @ directions, distance_upper_bound=reach)
    close = np.flatnonzero(np.isfinite(distance))
    apart = np.sqrt(((a[close] - b[np.asarray(nearest)[close]]) ** 2).sum(1))
    return int((apart <= reach).sum())


# Test or validation rows that are also in another split.

FEW = 0.001
"""A smaller share is not worth a remark."""
MOST_REPEATED = 0.5
"""From this share on the test set is not a test."""
PAIRS: tuple[tuple[SplitName, SplitName], ...] = (("test", "train"), ("test", "validation"), ("validation", "train"))


class RepeatedRows(Caveat):
    """Rows that a network is tested on, and that it was trained on or chosen by."""

    name = "repeated_rows"
    rank = 4

    def remarks(self, design: Design) -> Iterator[Remark]:
        """For each two splits the group with the largest share; a flaw if results rest on such a split."""
        groups = {id(data): name for name, data in design.data.items()}
        for split, other in PAIRS:
            found = {
                name: find_repeats(data, split, other)
                for name, data in design.data.items()
                if groups[id(data)] == name and len(data.rows(split)) and len(data.rows(other))
            }
            if not found:
                continue
            worst = max(found, key=lambda name: found[name].share)
            repeats = found[worst]
            if repeats.share > FEW:
                judged = split in design.judged_on and other == "train"
                flaw = judged and repeats.share >= MOST_REPEATED
                where = f" {design.inside(worst)}" if len(found) > 1 else ""
                yield Remark(
                    f"{split}_rows_in_{other}",
                    f"{split.capitalize()} rows leak: {_count(repeats)}{where}. {_meaning_of_repeats(split, other)}",
                    short=f"{100 * repeats.share:.3g} % of the {split} rows are also {_call(other)} rows",
                    subject=worst,
                    severity="problem" if flaw else "caution",
                    numbers={"rows": repeats.count, "share": repeats.share, "nearly": repeats.near},
                )


def _count(repeats: Repeats) -> str:
    near = f", {repeats.near:,} of them to within {NEAR:g} of each column's spread" if repeats.near else ""
    return (
        f"{repeats.count:,} of {repeats.looked_up:,} {repeats.split} rows ({100 * repeats.share:.3g} %) are also "
        f"{_call(repeats.other)} rows{near}"
    )


def _meaning_of_repeats(split: SplitName, other: SplitName) -> str:
    if other == "validation":
        return "What is chosen by validation samples is chosen by test samples. Remove repeated rows before the split."
    shown = "Results on the test set" if split == "test" else "Choices by validation samples"
    return (
        f"{shown} then show in part what was memorized, in every arm. Remove repeated rows before the split, or keep "
        "copies of a row in one split."
    )


def _call(split: SplitName) -> str:
    return "training" if split == "train" else split


# Test rows of classes that are never trained on, or nearly all of one class.

MOST_UNKNOWN = 0.5
"""From this share of test rows with unknown classes on, the test set is not a test."""
MAJORITY = 0.8
"""From this share on, an accuracy says little without it."""


class ClassBalance(Caveat):
    """Accuracy means little where most answers can be known, or cannot be known, without looking at the input."""

    name = "class_balance"
    rank = 7

    def remarks(self, design: Design) -> Iterator[Remark]:
        """Of the test data of the first group, if results are accuracies or losses of them."""
        data = next(iter(design.data.values()))
        tested, trained = data.targets[data.test], data.targets[data.train]
        if data.classes is None or not len(tested) or "test" not in design.judged_on:
            return
        unknown = float(np.mean(~np.isin(tested, trained)))
        if unknown:
            yield Remark(
                "unseen_classes",
                f"Classes that are never trained on: {round(unknown * len(tested)):,} of {len(tested):,} test rows "
                f"({100 * unknown:.3g} %) are of a class that is absent from the training rows, as happens if a sorted "
                "file is cut. No arm can be right there; shuffle the rows before the split.",
                short=f"{100 * unknown:.3g} % of the test rows are of classes that are never trained on",
                severity="problem" if unknown >= MOST_UNKNOWN else "caution",
                numbers={"share": unknown},
            )
        majority = float(np.unique(tested, return_counts=True)[1].max() / len(tested))
        if majority >= MAJORITY and any(metric.kind == "accuracy" for metric in design.judged):
            reached = [number for number, claim in enumerate(design.plan.study.claims, 1) if _below(claim, majority)]
            claims = f" Claim {', '.join(map(str, reached))} would hold for it." if reached else ""
            yield Remark(
                "majority_class",
                f"One class dominates: always answering the most frequent class is right for {100 * majority:.3g} % of "
                f"the test rows.{claims} An accuracy shows something only above that.",
                numbers={"share": majority, "claims": len(reached)},
                short=f"always answering one class is right for {100 * majority:.3g} % of the test rows",
            )


def _below(claim: Claim, majority: float) -> bool:
    """Whether the claim asks of one arm no more than a constant answer gives."""
    accuracy = claim.metric is not None and infer(claim.metric).kind == "accuracy"
    return accuracy and claim.op == ">" and isinstance(claim.value, float) and claim.value < majority


# Arms that are judged on different data, or by different losses.

SAME = 1e-5
"""Columns in units of their spread count as equal up to this."""


class DifferentExam(Caveat):
    """The declared factor also changes what the arms are judged on."""

    name = "different_exam"
    rank = 6

    def remarks(self, design: Design) -> Iterator[Remark]:
        """The first pair that is judged on different rows, and the first that is judged by different losses."""
        for split in design.judged_on:
            for pair in design.pairs:
                a, b = design.data[pair.a.name], design.data[pair.b.name]
                if a is not b and not _same_exam(a, b, split):
                    which = {"train": "training"}.get(split, split)
                    yield Remark(
                        f"different_{split}_data",
                        f"Different exams: results are numbers of the {which} data, and the {which} rows or targets "
                        f"of {design.subject(pair.a.name)} ({len(a.rows(split)):,} rows) are not those of "
                        f"{design.subject(pair.b.name)} ({len(b.rows(split)):,} rows). A better number may come from "
                        "easier rows instead of a better network; only a comparison on the same rows can tell.",
                        pair.a.name,
                        short=f"each arm is judged on its own {which} data",
                    )
                    break
        if not any(metric.kind == "loss" for metric in design.judged):
            return
        for pair in design.pairs:
            losses = [_loss(design, name) for name in (pair.a.name, pair.b.name)]
            if losses[0] != losses[1]:
                yield Remark(
                    "different_losses",
                    f"Different measures: a loss is {losses[0]} in {pair.a.name} and {losses[1]} in {pair.b.name}. "
                    "These are different functions, so their values cannot be compared; compare an accuracy.",
                    short="each arm is judged by its own loss function",
                )
                return


def _same_exam(a: Dataset, b: Dataset, split: SplitName) -> bool:
    """Whether both have the same rows and targets; another scaling of the columns is the same exam."""
    rows, others = a.rows(split), b.rows(split)
    if len(rows) != len(others) or not np.array_equal(a.targets[rows], b.targets[others]):
        return False
    if a.inputs is b.inputs and np.array_equal(rows, others):
        return True
    if a.input_width != b.input_width:
        return False
    x, y = (_in_spreads(data, own) for data, own in ((a, rows), (b, others)))
    return bool(np.allclose(x, y, rtol=0, atol=SAME))


def _in_spreads(data: Dataset, rows: Rows) -> Array:
    """Inputs without the scale and offset of each column."""
    values = np.asarray(data.inputs[rows], np.float64)
    spread = values.std(0)
    return np.asarray((values - values.mean(0)) / np.where(spread > 0, spread, 1.0))


def _loss(design: Design, name: str) -> str:
    settings = read_settings(design.planned(name).config)
    found = {
        path.partition(" of ")[0].split(".")[-1]: v
        for path, v in settings.items()
        if path.split(".")[:2] == ["train", "loss"]
    }
    kind = found.pop("kind")
    return f"{kind} ({', '.join(f'{key} {value}' for key, value in found.items())})" if found else str(kind)


# An input column that gives the target away.

FEWEST_ROWS = 40
"""With fewer rows, a column may separate classes by luck."""
SAMPLE = 2_000
"""Rows on which columns are tried before they are compared with all rows."""
EXACT = 1e-9


class GivenAway(Caveat):
    """One column alone determines every target: whatever an arm does, it only has to find that column."""

    name = "given_away"
    rank = 7

    def remarks(self, design: Design) -> Iterator[Remark]:
        """The first such column of the first group's data."""
        data = next(iter(design.data.values()))
        column = find_giveaway(data)
        if column is not None:
            what = "the class" if data.classes is not None else "the target"
            yield Remark(
                self.name,
                f"The target is among the inputs: input column {column + 1} alone determines {what} of every row. Arms "
                "are then compared in how they find that column; leave it out, unless that is the task.",
                numbers={"column": column + 1},
                short=f"input column {column + 1} alone determines the target",
            )


def find_giveaway(data: Dataset) -> int | None:
    """The first column that is the target up to a scale, or whose values keep all classes apart; None if none does."""
    rows = np.concatenate([data.train, data.validation, data.test])
    if len(rows) < FEWEST_ROWS or data.input_width < 2:  # of a single column there is nothing else to learn from
        return None
    some = rows[np.linspace(0, len(rows) - 1, min(len(rows), SAMPLE)).astype(np.intp)]
    separates = _follows if data.classes is None else _keeps_apart
    if data.classes is None and data.output_width != 1:
        return None
    for column in np.flatnonzero(separates(data.inputs[some], data.targets[some])):
        if separates(data.inputs[rows][:, [column]], data.targets[rows])[0]:
            return int(column)
    return None


def _follows(x: Array, y: Array) -> NDArray[np.bool_]:
    """Which columns are the target, scaled and shifted."""
    x, y = x.astype(np.float64), y[:, 0].astype(np.float64)
    x, y = x - x.mean(0), y - y.mean()
    sizes = np.sqrt((x**2).sum(0) * (y**2).sum())
    return np.asarray((np.abs(x.T @ y) >= (1 - EXACT) * sizes) & (sizes > 0))


def _keeps_apart(x: Array, y: Array) -> NDArray[np.bool_]:
    """In which columns every class has an interval of its own."""
    classes = np.unique(y)
    if len(classes) < 2:
        return np.zeros(x.shape[1], bool)
    low = np.stack([x[y == each].min(0) for each in classes])
    high = np.stack([x[y == each].max(0) for each in classes])
    order = np.argsort(low, axis=0)
    low, high = np.take_along_axis(low, order, 0), np.take_along_axis(high, order, 0)
    return np.asarray((high[:-1] < low[1:]).all(0))


# A test set that takes part in training or in choosing what is reported.


class TestSelection(Caveat):
    """The best epoch, the end of training, the learning rate or a target is decided by a metric of the test set."""

    __test__ = False  # for pytest: this is no test
    name = "test_selection"
    rank = 35

    def remarks(self, design: Design) -> Iterator[Remark]:
        """One remark for each thing that the test set decides in any group."""
        configs = [planned.group.config for planned in design.plan.groups]
        best = configs[0].measure.best
        if best is not None and split_of(best) == "test":
            yield Remark(
                self.name,
                f"Selection on the test set: the best epoch is chosen by {best}, so this selects on the test set. The "
                "best of many evaluations on the same samples is better than new samples would give; choose by "
                "validation samples (measure.best: validation_loss) and report the test set at that epoch.",
                short="the best epoch was chosen on the test set",
            )
        catalog = design.plan.resolved.catalog
        if any(_is_test(_stopped_by(config)) for config in configs):
            yield Remark(
                self.name,
                "Selection on the test set: early stopping looks at test samples, so they decide how long a network "
                "is trained. Use train.early_stopping.by: validation_loss.",
                short="the test set decides when training ends",
            )
        reactions = (config.train.schedule.build(catalog).reaction(config.train.lr) for config in configs)
        if any(reaction is not None and _is_test(reaction.metric) for reaction in reactions):
            yield Remark(
                self.name,
                "Selection on the test set: the learning rate is reduced by what the test samples show. Use "
                "train.schedule.by: validation_loss.",
                short="the test set decides when the learning rate falls",
            )
        target = configs[0].measure.target
        if target is not None and _is_test(target.metric):
            yield Remark(
                "target_on_test",
                f"Target on the test set: the time to the target ends when {target.metric} first reaches "
                f"{target.value:g}. The first of many evaluations on the same samples may get there by luck; use "
                f"measure.target: {{metric: {target.metric.replace('test', 'validation')}, …}}.",
                short="the time to the target is decided on the test set",
            )


def _stopped_by(config: Config) -> str | None:
    return None if config.train.early_stopping is None else config.train.early_stopping.by


def _is_test(metric: str | None) -> bool:
    return metric is not None and split_of(metric) == "test"


# Test sets that are too small to tell arms apart, and validation sets that are too small to choose by.

FEWEST_APART = 6
"""Rows in which two networks must disagree, all in favor of one, to be told apart at 5 %: 2 · 2⁻⁶ = 3 %."""
ENOUGH = 100
"""From so many rows of all seeds on there is no remark."""
ENOUGH_TO_CHOOSE = 20
"""The same of rows by which something is only chosen, and of those of one seed."""


class TestSize(Caveat):
    """Few rows: one answer more or less is a large difference, and which rows they are is luck."""

    __test__ = False  # for pytest: this is no test
    name = "test_size"
    rank = 5

    def remarks(self, design: Design) -> Iterator[Remark]:
        """Of each split that results rest on or that decides something: the group with the fewest rows."""
        for split in SPLITS[1:]:
            sizes = {name: rows for name, data in design.data.items() if (rows := len(data.rows(split)))}
            judged = split in design.judged_on
            if not sizes or not (judged or split in design.deciding):
                continue
            name = min(sizes, key=sizes.__getitem__)
            rows, seeds = sizes[name], len(design.plan.study.trial_seeds) if _differs_by_seed(design, name) else 1
            if rows >= ENOUGH_TO_CHOOSE and (not judged or rows * seeds >= ENOUGH):
                continue
            words = f"the {split} set has {counted(rows, 'row')}{_of(design, name)}"
            meaning = _meaning_of_size(rows, design.data[name].classes is not None)
            chosen = "" if judged else " It decides what is chosen for each arm."
            more = " More seeds do not help: they train further networks and test them on the same rows."
            yield Remark(
                f"{split}_size",
                f"Small {split} set: {words}, {meaning}{chosen}{more if seeds == 1 else ''}",
                name,
                numbers={"rows": rows},
                short=words,
            )


def _differs_by_seed(design: Design, name: str) -> bool:
    """Whether every seed has test rows of its own: drawn anew, or split anew."""
    data = design.planned(name).config.data
    task: Task = data.build(design.plan.catalog)
    return data.split == "per_trial" or task.draws_fresh


def _of(design: Design, name: str) -> str:
    return f" {design.inside(name)}" if len({id(data) for data in design.data.values()}) > 1 else ""


def _meaning_of_size(rows: int, classes: bool) -> str:
    one = f"so one row is {written(100 / rows)} points of accuracy. " if classes else "and a loss is their mean. "
    if rows < FEWEST_APART:
        return f"{one}Even if two networks disagree on every row, that may be luck: it can tell nothing."
    least = f"{written(100 * FEWEST_APART / rows)} points" if classes else f"what {FEWEST_APART} of {rows} rows decide"
    return f"{one}The smallest difference between two networks that is not luck (5 %) is {FEWEST_APART} rows: {least}."
