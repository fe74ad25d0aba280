"""The headline seed by seed: arm beside arm, and untuned beside tuned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gradlab.analysis.estimate import where
from gradlab.analysis.measured import Measured
from gradlab.report.charts import Column, EffectChart, SeedChart
from gradlab.report.figures.base import WIDE, Figure, Numbers, levels_of
from gradlab.report.tables import base_settings
from gradlab.spec.study import Headline
from gradlab.tell.answers import ALL_ON, judge_parts
from gradlab.words import capital, counted, join, written

MOST, MOST_TUNED = 10, 8
"""Arms that stand side by side."""


class BySeed(Figure):
    """The headline of every arm, every trial a dot, the trials of a seed joined, center and 95 % interval beside."""

    name = "by_seed"
    of_headline = True
    rank = 49

    def chart(self, measured: Measured) -> SeedChart | None:
        """Of arms with names of their own, under several seeds; along an axis other figures show it."""
        headline, groups = measured.headline, measured.group_names
        if headline is None or measured.study.arms is None or not 2 <= len(groups) <= MOST or measured.seeds_done < 2:
            return None
        columns = tuple(_column(measured, group, headline, place) for place, group in enumerate(groups))
        values = np.stack([column.values for column in columns], axis=1)
        finite = values[np.isfinite(values)]
        if not len(finite):
            return None
        name = where(headline.metric, headline.at)
        joins = ", a line joins a seed" if len(groups) == 2 else ""
        planned = sum(len(measured.planned_seeds[group]) for group in groups)
        return SeedChart(
            f"{name} by seed".replace("_", " ").capitalize(),
            "arm",
            name.replace("_", " "),
            columns,
            measured.all_seeds,
            log_y=bool(finite.min() > 0 and finite.max() > WIDE * finite.min()),
            levels=levels_of(measured, headline.metric) if headline.at.layer is None else (),
            note=f"every dot is a trial{joins}, beside: center and 95 % interval{_say_missing(values, planned)}",
            finding=_see_winner(measured, headline.metric, values),
        )


class Parts(Figure):
    """What each part of a recipe is worth: every arm that lacks one against the arm that has all, with intervals."""

    name = "parts"
    rank = 2

    def chart(self, measured: Measured) -> EffectChart | None:
        """Of an ablation only."""
        found, headline = judge_parts(measured), measured.headline
        if not found or headline is None:
            return None
        ends = [(p, None if p.apart.bounded else p.apart.low, None if p.apart.bounded else p.apart.high) for p in found]
        rows = tuple((p.group, p.apart.value or 0.0, low, high) for p, low, high in ends)
        ratio, label = found[0].ratio, measured.metric(headline.metric).label
        told = [f"{p.group} {written(p.apart.value)}{' times' * ratio} ({p.outcome})" for p in found]
        return EffectChart(
            "What each part is worth",
            f"{label}, {'times' if ratio else 'minus'} {ALL_ON}",
            "arm",
            ((f"no difference is {1 if ratio else 0}", rows),),
            ratio,
            note="dot: median over seeds, bar: 95 % interval",
            finding=f"{capital(label)} against {ALL_ON}: {join(told)}.",
        )


class TunedBesideUntuned(Figure):
    """The headline of every arm, untuned and tuned, on the same seeds."""

    name = "tuned_beside_untuned"
    of_headline = True
    rank = 3

    def chart(self, measured: Measured) -> SeedChart | None:
        """Of a study that tunes and trains its arms untuned too."""
        tuning, headline = measured.plan.tuning, measured.headline
        if tuning is None or headline is None or tuning.untuned is None or tuning.chosen is None:
            return None
        before, seeds = Measured(tuning.untuned, measured.records), measured.all_seeds
        columns: list[Column] = []
        arms = list(zip(measured.group_names, before.group_names, strict=True))[:MOST_TUNED]
        for place, (arm, untuned) in enumerate(arms):
            called = measured.names.group(arm)
            base, best = base_settings(tuning, arm), tuning.chosen[arm].settings
            columns += [
                replace(_column(before, untuned, headline, place, seeds), group=called, state="untuned", settings=base),
                replace(_column(measured, arm, headline, place), group=called, state="tuned", settings=best),
            ]
        values = np.concatenate([column.values for column in columns])
        finite = values[np.isfinite(values)]
        if not len(finite):
            return None
        planned = sum(len(measured.planned_seeds[arm]) + len(before.planned_seeds[own]) for arm, own in arms)
        positive, by_ratio = finite[finite > 0], measured.metric(headline.metric).on_logs and finite.min() >= 0
        zeros = "; exact zeros stand at the bottom" if by_ratio and (finite == 0).any() else ""
        beside = "; beside: center and 95 % interval" if any(column.center for column in columns) else ""
        name = where(headline.metric, headline.at).replace("_", " ")
        return SeedChart(
            f"{name[0].upper()}{name[1:]}, untuned and tuned",
            "arm",
            name,
            tuple(columns),
            measured.all_seeds,
            log_y=by_ratio and len(positive) > 0 and bool(positive.max() > WIDE * positive.min()),
            levels=levels_of(measured, headline.metric) if headline.at.layer is None else (),
            note=f"hollow: untuned, filled: tuned; a dot is a trial on a judging seed, a line joins a seed{beside}"
            f"{zeros}{_say_missing(values, planned)}",
            finding=_see_tuning(name, columns),
        )


def _column(
    measured: Measured, group: str, headline: Headline, style: int, seeds: Sequence[int] | None = None
) -> Column:
    """The headline of a group under these seeds (all planned ones), NaN where it has no finite number."""
    by_seed = measured.values(headline.metric, group, headline.at)
    wanted = measured.all_seeds if seeds is None else seeds
    values = [np.nan if (v := by_seed.get(seed)) is None else float(v) for seed in wanted]
    s = measured.summary(headline.metric, group, headline.at)
    center = None if s.value is None or s.low is None or s.high is None or s.bounded else (s.value, s.low, s.high)
    return Column(group, np.where(np.isfinite(values), values, np.nan), center, style)


def _say_missing(values: Numbers, planned: int) -> str:
    missing = planned - int(np.count_nonzero(np.isfinite(values)))
    return f"; {missing} trials have no finite number and are not drawn" if missing else ""


def _see_winner(measured: Measured, metric: str, values: Numbers) -> str:
    """In how many seeds the arm that is best in most of them is best."""
    sign = measured.metric(metric).sign
    whole = values[np.isfinite(values).all(1)]
    if sign == 0 or not len(whole):
        return ""
    winners = np.argmax(sign * whole, axis=1)
    best = int(np.bincount(winners, minlength=values.shape[1]).argmax())
    names = [measured.names.group(group) for group in measured.group_names]
    against = f"better than {names[1 - best]}" if len(names) == 2 else "the best"
    return f"{names[best]} is {against} in {np.count_nonzero(winners == best)} of {counted(len(whole), 'seed')}."


def _see_tuning(name: str, columns: list[Column]) -> str:
    """What tuning does to the median of each arm."""
    told = []
    for before, after in zip(columns[::2], columns[1::2], strict=True):
        finite = [column.values[np.isfinite(column.values)] for column in (before, after)]
        if all(map(len, finite)):
            first, last = (written(float(np.median(values))) for values in finite)
            told.append(f"from {first} to {last} {'in' if after.group.startswith('the ') else 'for'} {after.group}")
    return f"With its own setting for each arm, the median {name} goes {join(told)}." if told else ""
