"""The tables of a report, as rows of text: the terminal, Markdown and HTML show the same ones."""

from __future__ import annotations

from dataclasses import dataclass

from gradlab.analysis.answer import headline_of
from gradlab.analysis.measured import Measured
from gradlab.analysis.numbers import interval, number, where
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


@dataclass(frozen=True)
class Table:
    """A title, a header and rows; notes stand below."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def groups_table(measured: Measured) -> Table:
    """Every group with its main metrics: mean and 95 % interval over seeds."""
    headline = headline_of(measured)
    metrics = [metric for metric in MAIN if metric in measured.metrics]
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
    return Table("Results (mean and 95 % interval over seeds)", ("group", "trials", *titles), tuple(rows))


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
