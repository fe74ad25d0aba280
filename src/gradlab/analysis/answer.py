"""The answer to the study's question in one or two sentences, written from the numbers."""

from __future__ import annotations

from gradlab.analysis.comparison import Comparison, compare
from gradlab.analysis.measured import Measured
from gradlab.analysis.numbers import interval, number, times, where
from gradlab.spec.study import Headline

PREFERRED = ("test_accuracy", "test_loss", "validation_loss", "final_loss", "initial_loss")


def headline_of(measured: Measured) -> Headline | None:
    """What the study names as its headline, or the first of the usual metrics that exists."""
    if measured.study.headline is not None:
        return measured.study.headline
    for metric in PREFERRED:
        if metric in measured.metrics:
            return Headline(metric=metric)
    return None


def answer(measured: Measured) -> str:
    """First every group's number, then each other group against the first."""
    headline = headline_of(measured)
    if headline is None:
        return "Nothing was measured that could answer the question."
    groups = measured.group_names
    seeds = len(measured.study.trial_seeds)
    first = f"{where(headline.metric, headline.at)}: " + "; ".join(
        f"{name} {interval(measured.summary(headline.metric, name, headline.at))}" for name in groups[:6]
    )
    if len(groups) > 6:
        first += f"; and {len(groups) - 6} more"
    sentences = [f"{first} (mean and 95 % interval over {seeds} seed{'s' if seeds != 1 else ''})."]
    if 2 <= len(groups) <= 4:
        for other in groups[1:]:
            comparison = compare(measured, headline.metric, groups[0], other, headline.at)
            if comparison is not None:
                sentences.append(against(comparison))
    counts = measured.counts()
    if counts["diverged"] or counts["failed"]:
        sentences.append(f"{counts['diverged']} trials diverged, {counts['failed']} failed.")
    return " ".join(sentences)


def against(c: Comparison) -> str:
    """One comparison as a sentence, with how sure it is."""
    if c.ratio is None:
        low, high = c.difference_low, c.difference_high
        sure = "" if low is None else f", 95 % interval [{number(low, 3)}, {number(high, 3)}]"
        return f"{c.b} minus {c.a}: {number(c.difference, 3)}{sure}, paired over {c.n} seeds."
    lower = c.ratio < 1
    factor, low, high = c.ratio, c.ratio_low, c.ratio_high
    if lower:
        factor, low, high = 1 / c.ratio, _inverse(c.ratio_high), _inverse(c.ratio_low)
    sure = "" if low is None or high is None else f" (95 % interval {times(low)} to {times(high)})"
    left_out = f"; {c.zero_pairs} pairs with an exact zero have no ratio" if c.zero_pairs else ""
    settled = ""
    if low is not None and low <= 1:
        settled = " – not settled: the interval contains 1"
    word = "lower" if lower else "higher"
    return f"{c.b} is {times(factor)} {word} than {c.a}{sure}, paired over {c.n} seeds{left_out}{settled}."


def _inverse(value: float | None) -> float | None:
    return None if value is None else 1 / value
