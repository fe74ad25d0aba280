"""The tables of a report, as rows of text."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from gradlab.analysis.against import Against, Row
from gradlab.analysis.claims.numbers import compare_numbers
from gradlab.analysis.claims.verdict import Verdict
from gradlab.analysis.comparison import COSTS, collapse_of, convergence_of, frontier, offers
from gradlab.analysis.estimate import interval, percent_range, where
from gradlab.analysis.measured import Measured
from gradlab.analysis.theory import agreements, predictions_of
from gradlab.audits.audit import Audit
from gradlab.plans.tuning import judged_phase
from gradlab.spec.naming import short
from gradlab.spec.paths import label, value_at
from gradlab.tell.answers import ALL_ON, NEITHER, NO_DIGIT, OPEN, judge_parts
from gradlab.tell.findings import fit_measures
from gradlab.tell.methods import RULE, describe_cost
from gradlab.theory.prediction import Forecast
from gradlab.words import bracket, capital, counted, rounded, written

if TYPE_CHECKING:
    from gradlab.analysis.tuning import Tried, Tuning
    from gradlab.plans.tuning import TuningPlan

MAIN = (
    "initial_loss",
    "final_loss",
    "test_loss",
    "test_accuracy",
    "validation_accuracy",
    "steps_to_target",
    "seconds_per_epoch",
)
MOST_COLUMNS = 8
TABULATED = ("delta_l2", "activation_std.pre")
"""Measures whose theory the report tabulates even where it agrees."""
LAYER_THEORY_NOTE = (
    "theory: the geometric mean over seeds that is expected before training, and the band that holds 95 % of the "
    "seeds. ~: right within a factor 2. *: from drawn initial networks."
)
PUBLISHED_NOTE = (
    "Consistent: at the precision at which it was printed, the number lies in the 95 % prediction interval of one more "
    "seed of ours. Says little: so does almost any number, because that interval spans over a decade or half of the "
    "scale. With fewer than 10 seeds it is open toward networks that collapse, of which the seeds may have missed one."
)


@dataclass(frozen=True)
class Table:
    """A title, a header and rows of text, with notes below."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()
    """Columns that hold numbers: aligned right, sorted by size."""


def make_tables(measured: Measured) -> list[Table]:
    """All tables of results that apply, in the order of the report."""
    found = [
        tabulate_groups(measured),
        tabulate_parts(measured),
        tabulate_collapse(measured),
        tabulate_convergence(measured),
        tabulate_pareto(measured),
        tabulate_published(measured),
        tabulate_layers(measured),
        tabulate_theory(measured),
    ]
    return [table for table in found if table is not None]


def tabulate_layer_names(layer_names: Mapping[str, Sequence[str]]) -> Table | None:
    """Which module is which layer, if user code was watched."""
    if not layer_names:
        return None
    count = max(map(len, layer_names.values()))
    rows = tuple(
        (str(place + 1), *(names[place] if place < len(names) else "–" for names in layer_names.values()))
        for place in range(count)
    )
    return Table("Modules that are layers", ("layer", *layer_names), rows)


def tabulate_collapse(measured: Measured) -> Table | None:
    """Share of networks that ended at chance, if any did."""
    found = [c for name in measured.group_names if (c := collapse_of(measured, name)) is not None]
    if not any(c.share.count for c in found):
        return None
    rows = tuple(
        (
            measured.names.group(c.group),
            f"{c.share.count} of {c.share.n}",
            percent_range(c.share),
            rounded(c.median, 4),
            ", ".join(map(str, c.escapes[:8])) + (" …" if len(c.escapes) > 8 else "") if c.escapes else "–",
        )
        for c in found
    )
    header = ("group", "at chance", "95 % interval of the share", "median accuracy", "epoch of escape, by seed")
    notes = (
        "At chance: not better than always answering the most common class, by a binomial test on the test set at 1 %. "
        "Interval: binomial, valid after any number of looks.",
    )
    return Table("Networks that never left chance", header, rows, notes, numbers=(1, 2, 3, 4))


def tabulate_convergence(measured: Measured) -> Table | None:
    """Time of each group to the study's target."""
    found = [c for name in measured.group_names if (c := convergence_of(measured, name)) is not None]
    target = measured.study.target
    if not found or target is None:
        return None
    rows = tuple(
        (
            measured.names.group(c.group),
            f"{c.reached.count} of {c.reached.n}",
            _format_time(c.steps),
            _format_time(c.epochs),
            _format_time(c.seconds),
        )
        for c in found
    )
    header = ("group", "reached by", "steps", "epochs", "seconds")
    notes = ("Medians over all seeds; a seed that never reached it counts as later than any.",)
    return Table(
        f"To {measured.metric(target.metric).label} {written(target.value)}", header, rows, notes, numbers=(1, 2, 3, 4)
    )


def tabulate_pareto(measured: Measured) -> Table | None:
    """Pareto-optimal groups: accuracy against each of four costs."""
    value = next((m for m in ("test_accuracy", "validation_accuracy") if m in measured.metrics), None)
    if value is None or len(measured.group_names) < 6:
        return None
    found = {cost: {offer.group: offer for offer in offers(measured, value, cost)} for cost in COSTS}
    best = {cost: {offer.group for offer in frontier(tuple(by.values()))} for cost, by in found.items()}
    order = sorted(set().union(*best.values()), key=lambda name: found[COSTS[0]][name].cost)
    rows = tuple(
        (
            measured.names.group(name),
            rounded(found[COSTS[0]][name].value, 4),
            *(rounded(by[name].cost) + (" ●" if name in best[cost] else "") for cost, by in found.items()),
        )
        for name in order
    )
    header = ("group", measured.metric(value).label, *(measured.metric(cost).label for cost in COSTS))
    notes = ("●: no other group is both cheaper and better. Medians over seeds.",)
    return Table("Pareto-optimal groups", header, rows, notes, numbers=tuple(range(1, len(header))))


def _format_time(value: float) -> str:
    return "never" if math.isinf(value) else rounded(value)


def tabulate_groups(measured: Measured) -> Table:
    """Every group with its main metrics: center and 95 % interval over seeds."""
    headline = measured.headline
    metrics = [metric for metric in MAIN if metric in measured.metrics]
    if measured.plan.own_code:  # user code may return any metrics
        metrics = [metric for metric in measured.metrics if metric != "diverged_step"][:MOST_COLUMNS]
    columns = [(metric, None) for metric in metrics]
    if headline is not None and (headline.metric not in metrics or headline.at.layer is not None):
        columns.insert(0, (headline.metric, headline.at))  # type: ignore[arg-type]
    rows = []
    for name in measured.group_names:
        counts = measured.counts(name)
        trials = str(counts["done"] + counts["failed"])
        trials += "".join(f", {counts[how]} {how}" for how in ("diverged", "failed") if counts[how])
        cells = [interval(measured.summary(metric, name, at)) for metric, at in columns]
        rows.append((measured.names.group(name), trials, *cells))
    labels = [measured.metric(metric).label for metric, _ in columns]
    titles = [label if at is None else where(label, at) for label, (_, at) in zip(labels, columns, strict=True)]
    notes = (
        "[…]: 95 % interval of the median, valid after any number of looks. (…): smallest and largest seed, of too few "
        "for an interval. Diverged networks count as worst.",
    )
    header = ("group", "trials", *titles)
    title = "Results (median and 95 % interval over seeds)"
    return Table(title, header, tuple(rows), notes, numbers=tuple(range(1, len(header))))


def tabulate_parts(measured: Measured) -> Table | None:
    """Of an ablation: what each part is worth; None of any other comparison."""
    parts = judge_parts(measured)
    if not parts:
        return None
    rows = tuple((part.group, interval(part.apart), part.outcome) for part in parts)
    against = f"{'times' if parts[0].ratio else 'minus'} {ALL_ON}"
    outcomes = {part.outcome for part in parts}
    notes = ["Median and 95 % interval."]
    if NEITHER in outcomes:
        notes.append("Neither helps nor hurts: the difference is shown to be less than what matters.")
    if NO_DIGIT in outcomes:
        notes.append("Changes no digit: the numbers are equal under every seed; does the command read the switch?")
    if OPEN in outcomes and measured.study.matters is None:
        notes.append("With --matters, a small difference can be shown not to matter: neither helps nor hurts.")
    return Table("What each part is worth", ("arm", against, "the part"), rows, tuple(notes), numbers=(1,))


def tabulate_published(measured: Measured) -> Table | None:
    """Published numbers against measured ones, and whether a new seed could have given them."""
    found = compare_numbers(measured)
    if not found:
        return None
    rows = tuple(
        (
            row.called,
            row.what,
            row.published.text,
            row.origin,
            rounded(row.measured.median, 4),
            row.expected,
            _format_zeros(row.measured.zeros, row.measured.n),
            row.outcome,
        )
        for row in found
    )
    header = ("group", "measure", "published", "from", "measured (median)", "new seed, 95 %", "exact zeros", "number")
    notes = dict.fromkeys(f"{row.called}, {row.what}: {row.note}" for row in found if row.note)
    strange = dict.fromkeys(f"Not comparable: {row.incomparable}." for row in found if row.incomparable is not None)
    fits = [fits.sentence for fits in fit_measures(measured)]
    return Table("Published numbers", header, rows, (PUBLISHED_NOTE, *strange, *fits, *notes), numbers=(2, 4, 5, 6))


def _format_zeros(zeros: int, n: int) -> str:
    return f"{zeros} of {n}" if zeros else "–"


def tabulate_layers(measured: Measured) -> Table | None:
    """The headline's measure by layer and group, if it is a layer measure."""
    headline = measured.headline
    if headline is None or headline.at.layer is None:
        return None
    step = headline.at.step
    profiles = [measured.profile(headline.metric, name, step) for name in measured.group_names]
    count = max(len(profile.layers) for profile in profiles)
    expected = _expected_by_layer(measured, headline.metric, step)
    rows = []
    for layer in range(1, count + 1):
        cells = []
        for name in measured.group_names:
            s = measured.summary(headline.metric, name, headline.at.model_copy(update={"layer": layer}))
            cells += [rounded(s.median), f"{rounded(s.smallest)} … {rounded(s.largest)}"]
            if name in expected:
                cells.append(_format_forecast(expected[name].get(layer)))
        rows.append((str(layer), *cells))
    columns = {
        name: ("median", "smallest … largest", *(("theory",) if name in expected else ()))
        for name in measured.group_names
    }
    header = ("layer", *(f"{measured.names.group(name)} ({what})" for name, own in columns.items() for what in own))
    return Table(
        f"{capital(measured.metric(headline.metric).label)} by layer",
        header,
        tuple(rows),
        (LAYER_THEORY_NOTE,) if expected else (),
        numbers=tuple(range(1, len(header))),
    )


def _expected_by_layer(measured: Measured, metric: str, step: int | str | None) -> dict[str, Mapping[int, Forecast]]:
    """What theory predicts of a measure, by group and layer; nothing after training."""
    if step not in (0, "start"):
        return {}
    found = {name: one.forecasts.get(metric, {}) for name, one in predictions_of(measured).items()}
    return {name: by for name, by in found.items() if by}


def _format_forecast(one: Forecast | None) -> str:
    if one is None:
        return "–"
    mark = {"exact": "", "order": " ~", "simulated": " *"}[one.kind]
    return f"{rounded(one.center)} [{rounded(one.low, 2)}, {rounded(one.high, 2)}]{mark}"


def tabulate_theory(measured: Measured) -> Table | None:
    """Before training: measured against theory, by group and measure."""
    found = [one for one in agreements(measured) if one.measure in TABULATED or not one.agrees]
    if not found:
        return None
    rows = tuple(
        (
            one.group,
            one.measure,
            rounded(one.change_predicted),
            rounded(one.change_measured),
            rounded(one.ratio) + (f" {bracket(one.low, one.high)}" if one.low < one.high else ""),
            f"{one.layers - len(one.outside)} of {one.layers}",
            one.kind,
        )
        for one in found
    )
    header = (
        "group", "measure", "theory: first/last layer", "measured", "measured/predicted", "layers in the band", "kind",
    )  # fmt: skip
    notes = (
        "measured/predicted: geometric mean over layers, with its 95 % interval over seeds. The band holds 95 % of the "
        "seeds. exact: with the first correction in 1/width; order: right within a factor 2; simulated: from drawn "
        "initial networks.",
    )
    return Table("Theory and measurement before training", header, rows, notes, numbers=(2, 3, 4, 5))


def list_failures(measured: Measured) -> list[str]:
    """One line per distinct error, with the number of trials that ended in it."""
    return [f"{count} × {error}" for error, count in measured.errors().items()]


# The audit and the verdicts.

HOW = (
    "One rule decides each kind of claim, at 5 % after Holm over all claims of the study: t-tests and a sign "
    "test on differences paired over seeds (log ratios for quantities over decades), a sign test on the median of one "
    "arm, a binomial test on shares, all valid after any number of looks. Every planned seed counts. Reproduced: the "
    "contrary is refuted; not reproduced: the claim is refuted; direction only: just its direction is shown. A "
    "published number is judged apart from its sentence: it is consistent if, at the precision at which it was "
    "printed, it lies in the 95 % prediction interval of one more seed; it says little if almost any number does; it "
    "is not comparable if it was published for other data or another method."
)


def tabulate_audit(audit: Audit) -> Table:
    """What every arm is, side by side."""
    columns = audit.arms if audit.rows and len(audit.rows[0].cells) == len(audit.arms) else ("all groups",)
    rows = tuple((row.trait, *row.cells, row.status.text) for row in audit.rows)
    return Table("Side by side, as realized", ("what", *columns, ""), rows, (f"Compared: {audit.compared}.",))


def tabulate_claims(verdicts: Sequence[Verdict]) -> Table | None:
    """Claim, measured, verdict, reason; the published number and whether it is consistent, if there is any."""
    if not verdicts:
        return None
    if not any(verdict.claim.published for verdict in verdicts):
        rows = tuple((v.claim.text, v.measured, v.words, v.reason) for v in verdicts)
        return Table("Claims and verdicts", ("claim", "measured", "verdict", "why"), rows)
    full = tuple((v.claim.text, v.measured, v.words, v.published, v.number, v.reason) for v in verdicts)
    header = ("claim", "measured", "verdict", "published", "number", "why")
    return Table("Claims and verdicts", header, full, numbers=(3,))


def list_resampling(verdicts: Sequence[Verdict]) -> list[str]:
    """Permutation test and bootstrap of every claim that has them; they do not decide."""
    found = []
    for verdict in verdicts:
        for reading in verdict.readings:
            parts = []
            if reading.permutation is not None:
                parts.append(f"paired permutation test p = {rounded(reading.permutation, 2)}")
            if reading.bootstrap is not None:
                low, high = reading.bootstrap
                parts.append(f"bootstrap {bracket(low, high)}")
            if parts:
                found.append(f"{verdict.claim.text} ({reading.label}): {', '.join(parts)}")
    return found


# Two runs beside each other.

MOST_COMPARED = 400


def summarize_against(found: Against) -> str:
    """The comparison in one line."""
    studies = "The studies do not differ." if not found.settings else f"{len(found.settings)} settings differ."
    bits = "no trial in common"
    if found.same_trials:
        bits = f"{found.same_trials:,} trials in common, {found.same_bits:,} of them with the same bits"
    only = [f"only in the {which}: {', '.join(names)}" for which, names in _only(found) if names]
    return " ".join([studies, f"{bits[0].upper()}{bits[1:]}.", *(f"Groups {words}." for words in only)])


def _only(found: Against) -> list[tuple[str, tuple[str, ...]]]:
    return [("first", found.only_first), ("second", found.only_second)]


def tabulate_settings(found: Against) -> Table | None:
    """What the studies say differently."""
    rows = tuple(
        (s.where, s.path, _format_setting(s.first), _format_setting(s.second)) for s in found.settings[:MOST_COMPARED]
    )
    return Table("What differs in the studies", ("where", "path", "first", "second"), rows) if rows else None


def tabulate_results(found: Against) -> Table | None:
    """Every metric that both runs have, with the difference paired over seeds."""
    rows = tuple(
        (row.group, row.metric, interval(row.first), interval(row.second), _format_difference(row))
        for row in found.rows[:MOST_COMPARED]
    )
    more = len(found.rows) - MOST_COMPARED
    notes = (f"and {more:,} rows more",) if more > 0 else ()
    title = "What differs in the results (median and 95 % interval; difference: second minus first, paired over seeds)"
    header = ("group", "metric", "first", "second", "difference")
    return Table(title, header, rows, notes, numbers=(2, 3, 4)) if rows else None


def against_json(found: Against) -> dict[str, Any]:
    """Everything as plain data."""
    rows = [
        {
            "group": row.group,
            "metric": row.metric,
            "first": row.first.to_json(),
            "second": row.second.to_json(),
            "comparison": None if row.comparison is None else row.comparison.to_json(),
        }
        for row in found.rows
    ]
    return {**vars(found), "settings": [asdict(setting) for setting in found.settings], "rows": rows}


def _format_difference(row: Row) -> str:
    c = row.comparison
    if c is None:
        return "not paired"
    d = c.difference
    if c.identical:
        return "0 in every seed" if c.n > 1 else "0"
    if d.bounded:
        return rounded(d.value)
    return f"{rounded(d.value)} {bracket(d.low, d.high)}{' *' if d.excludes(0) else ''}"


def _format_setting(value: Any) -> str:
    return "–" if value is None else label(value)


# The tuning of a study: what was tried, and tuned beside untuned.


def tabulate_tuning(tuning: Tuning, measured: Measured) -> tuple[Table, ...]:
    """What was tried, and tuned beside untuned."""
    beside = tabulate_untuned(tuning, measured)
    return (tabulate_tried(tuning), *([beside] if beside is not None else []))


def tabulate_tried(tuning: Tuning) -> Table:
    """One row per arm and value: the metric over the tuning seeds, and what was chosen."""
    paths = list(tuning.stage.tune.paths)
    rows = tuple(
        (
            tried.candidate.arm,
            *(label(tried.candidate.values[path]) for path in paths),
            _score(tried.median),
            f"{_score(tried.best)} … {_score(tried.worst)}",
            _remark(tuning, tried),
        )
        for tried in tuning.tried
    )
    seeds = tuning.stage.tune.seeds
    header = ("arm", *(path.split(".")[-1] for path in paths), "median", "best … worst seed", "")
    title = f"Tuning by {tuning.metric.name} ({counted(seeds, 'seed')} of their own, in no verdict)"
    notes = (RULE, describe_cost(tuning))
    return Table(title, header, rows, notes, numbers=tuple(range(1, len(header) - 1)))


def _score(value: float | None) -> str:
    if value is None:
        return "–"
    return "diverged" if math.isinf(value) else rounded(value)


def _remark(tuning: Tuning, tried: Tried) -> str:
    words = ["chosen"] if tuning.is_chosen(tried) else []
    words += ["at the edge"] if words and tuning.edges(tried.candidate.arm) else []
    words += [f"{tried.diverged} diverged"] if tried.diverged else []
    words += [f"{tried.failed} failed"] if tried.failed else []
    return ", ".join(words)


def tabulate_untuned(tuning: Tuning, measured: Measured) -> Table | None:
    """The headline of every arm at the value of the base and at its own, on the same seeds."""
    headline, stage = measured.headline, tuning.stage
    if headline is None or stage.untuned is None or stage.chosen is None:
        return None
    both = Measured(stage.untuned, measured.records)
    if not both.trials:
        return None
    rows = []
    for arm, untuned in zip(measured.group_names, both.group_names, strict=True):
        before, after = (
            each.summary(headline.metric, name, headline.at) for each, name in ((both, untuned), (measured, arm))
        )
        rows.append(
            (arm, ", ".join(base_settings(stage, arm)), interval(before), stage.chosen[arm].words, interval(after))
        )
    name = where(headline.metric, headline.at)
    header = ("arm", "untuned", f"{name}, untuned", "tuned", f"{name}, tuned")
    notes = ("Untuned: the value of the study's base, trained on the same seeds as the tuned arms; in no verdict.",)
    return Table("Tuned beside untuned (median and 95 % interval)", header, tuple(rows), notes, numbers=(2, 4))


def base_settings(stage: TuningPlan, arm: str) -> tuple[str, ...]:
    """The values of the base in one arm: `lr=0.0001`, `batch=64`."""
    planned = next(each for each in stage.base.groups if each.group.name == arm)
    tree, catalog = planned.config.model_dump(mode="json"), stage.base.catalog
    return tuple(f"{path.split('.')[-1]}={short(path, value_at(tree, path), catalog)}" for path in stage.tune.paths)


def flat_rows(tuning: Tuning) -> list[dict[str, Any]]:
    """The rows of the tuning table for files: a value that is a part with parameters as JSON text."""
    return [
        {key: json.dumps(value) if isinstance(value, Mapping | list | tuple) else value for key, value in row.items()}
        for row in tuning.rows()
    ]


def tuning_json(tuning: Tuning, measured: Measured) -> dict[str, Any]:
    """Everything about the tuning as plain data."""
    stage, cost = tuning.stage, tuning.cost
    chosen = stage.chosen
    return {
        "by": tuning.metric.name,
        "better": tuning.metric.better,
        "seeds": list(stage.tune.tuning_seeds),
        "rule": RULE,
        "complete": tuning.complete,
        "chosen": None if chosen is None else {arm: dict(best.values) for arm, best in chosen.items()},
        "edges": {arm: list(paths) for arm, paths in stage.edges.items()},
        "untuned": {arm: list(base_settings(stage, arm)) for arm in measured.group_names} if stage.untuned else None,
        "cost": {"trials": cost.trials, "seconds": cost.seconds, "share": cost.share},
        "judged_trials": None if chosen is None else len(judged_phase(tuning.plan).trials),
        "tried": tuning.rows(),
    }
