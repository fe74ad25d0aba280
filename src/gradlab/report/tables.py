"""The tables of a report, as rows of text: the terminal, Markdown and HTML show the same ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gradlab.analysis.answer import headline_of
from gradlab.analysis.collapse import collapse_of
from gradlab.analysis.convergence import convergence_of
from gradlab.analysis.formatting import interval, number, percent_range, where
from gradlab.analysis.measured import Measured
from gradlab.analysis.pareto import COSTS, frontier, offers
from gradlab.analysis.published import beside

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


@dataclass(frozen=True)
class Table:
    """A title, a header and rows; notes stand below."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def report_tables(measured: Measured, layer_names: Mapping[str, Sequence[str]] | None = None) -> list[Table]:
    """All tables that apply, in the order of the report."""
    found = [groups_table(measured), collapse_table(measured), convergence_table(measured), pareto_table(measured)]
    found += [published_table(measured), layers_table(measured), names_table(layer_names or {})]
    return [table for table in found if table is not None]


def names_table(layer_names: Mapping[str, Sequence[str]]) -> Table | None:
    """Which module is which layer, where the user's own code was watched."""
    if not layer_names:
        return None
    count = max(map(len, layer_names.values()))
    rows = tuple(
        (str(place + 1), *(names[place] if place < len(names) else "–" for names in layer_names.values()))
        for place in range(count)
    )
    return Table("Modules that are layers", ("layer", *layer_names), rows)


def collapse_table(measured: Measured) -> Table | None:
    """Groups of which some networks ended at chance: shares, not means."""
    found = [c for name in measured.group_names if (c := collapse_of(measured, name)) is not None]
    if not any(c.share.count for c in found):
        return None
    rows = tuple(
        (
            c.group,
            f"{c.share.count} of {c.share.n}",
            percent_range(c.share),
            number(c.median),
            ", ".join(map(str, c.escapes[:8])) + (" …" if len(c.escapes) > 8 else "") if c.escapes else "–",
        )
        for c in found
    )
    header = ("group", "at chance", "95 % interval of the share", "median accuracy", "epoch of escape, by seed")
    notes = (
        "At chance: accuracy at most 1.5 times that of guessing. Interval: binomial, valid after any number of looks.",
    )
    return Table("Networks that never left chance", header, rows, notes)


def convergence_table(measured: Measured) -> Table | None:
    """How long each group took to reach the study's target."""
    found = [c for name in measured.group_names if (c := convergence_of(measured, name)) is not None]
    target = measured.study.target
    if not found or target is None:
        return None
    rows = tuple(
        (c.group, f"{c.reached.count} of {c.reached.n}", _later(c.steps), _later(c.epochs), _later(c.seconds))
        for c in found
    )
    header = ("group", "reached by", "steps", "epochs", "seconds")
    notes = ("Medians over all seeds; a seed that never reached it counts as later than any.",)
    return Table(f"To {target.metric} {number(target.value)}", header, rows, notes)


def pareto_table(measured: Measured) -> Table | None:
    """Groups that nothing beats in accuracy and price, for four prices."""
    value = next((m for m in ("test_accuracy", "validation_accuracy") if m in measured.metrics), None)
    if value is None or len(measured.group_names) < 6:
        return None
    found = {cost: {offer.group: offer for offer in offers(measured, value, cost)} for cost in COSTS}
    best = {cost: {offer.group for offer in frontier(tuple(by.values()))} for cost, by in found.items()}
    order = sorted(set().union(*best.values()), key=lambda name: found[COSTS[0]][name].cost)
    rows = tuple(
        (
            name,
            number(found[COSTS[0]][name].value),
            *(number(by[name].cost, 3) + (" ●" if name in best[cost] else "") for cost, by in found.items()),
        )
        for name in order
    )
    header = ("group", value, *(cost.replace("_", " ") for cost in COSTS))
    return Table(
        "Worth their price", header, rows, ("●: no other group is both cheaper and better. Medians over seeds.",)
    )


def _later(value: float) -> str:
    return "never" if math.isinf(value) else number(value, 3)


def groups_table(measured: Measured) -> Table:
    """Every group with its main metrics: center and 95 % interval over seeds."""
    headline = headline_of(measured)
    metrics = [metric for metric in MAIN if metric in measured.metrics]
    if measured.plan.own_code:  # whatever the user's code returned
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
        rows.append((name, trials, *cells))
    titles = [metric if at is None else where(metric, at) for metric, at in columns]
    notes = (
        "[…]: 95 % interval of the median, valid after any number of looks. (…): smallest and largest seed, of too few "
        "for an interval. Diverged networks count as worst.",
    )
    return Table("Results (median and 95 % interval over seeds)", ("group", "trials", *titles), tuple(rows), notes)


def published_table(measured: Measured) -> Table | None:
    """Published numbers beside measured ones."""
    rows = [
        (
            row.group,
            where(row.metric, row.at),
            number(row.published),
            number(row.measured.median),
            f"{number(row.measured.smallest, 3)} … {number(row.measured.largest, 3)}",
            _zeros(row.measured.zeros, row.measured.n),
            {True: "yes", False: "no", None: "–"}[row.inside_seeds],
        )
        for row in beside(measured)
    ]
    header = ("group", "measure", "published", "measured (median)", "smallest … largest", "exact zeros", "inside?")
    notes = [f"{e.arms}, {where(e.metric, e.at)}: {e.note}" for e in measured.study.published if e.note]
    return Table("Published beside measured", header, tuple(rows), tuple(notes)) if rows else None


def _zeros(zeros: int, n: int) -> str:
    return f"{zeros} of {n}" if zeros else "–"


def layers_table(measured: Measured) -> Table | None:
    """The headline's measure layer by layer and group by group, where it is a layer measure."""
    headline = headline_of(measured)
    if headline is None or headline.at.layer is None:
        return None
    step = headline.at.step
    profiles = [measured.profile(headline.metric, name, step) for name in measured.group_names]
    count = max(len(profile.layers) for profile in profiles)
    rows = []
    for layer in range(1, count + 1):
        cells = []
        for name in measured.group_names:
            s = measured.summary(headline.metric, name, headline.at.model_copy(update={"layer": layer}))
            cells += [number(s.median, 3), f"{number(s.smallest, 3)} … {number(s.largest, 3)}"]
        rows.append((str(layer), *cells))
    header = [cell for name in measured.group_names for cell in (f"{name} (median)", f"{name} (smallest … largest)")]
    return Table(f"{headline.metric} by layer", ("layer", *header), tuple(rows))


def failures(measured: Measured) -> list[str]:
    """One line per distinct error, with the number of trials that ended in it."""
    return [f"{count} × {error}" for error, count in measured.errors().items()]
