"""Two runs beside each other, as tables."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from gradlab.analysis.against import Against, Row
from gradlab.analysis.formatting import interval, number
from gradlab.report.tables import Table
from gradlab.spec.paths import label

MOST_ROWS = 400


def summarize(found: Against) -> str:
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
        (s.where, s.path, _format_setting(s.first), _format_setting(s.second)) for s in found.settings[:MOST_ROWS]
    )
    return Table("What differs in the studies", ("where", "path", "first", "second"), rows) if rows else None


def tabulate_results(found: Against) -> Table | None:
    """Every metric that both runs have, with the difference paired over seeds."""
    rows = tuple(
        (row.group, row.metric, interval(row.first), interval(row.second), _format_difference(row))
        for row in found.rows[:MOST_ROWS]
    )
    more = len(found.rows) - MOST_ROWS
    notes = (f"and {more:,} rows more",) if more > 0 else ()
    title = "What differs in the results (median and 95 % interval; difference: second minus first, paired over seeds)"
    header = ("group", "metric", "first", "second", "difference")
    return Table(title, header, rows, notes, numbers=(2, 3, 4)) if rows else None


def to_json(found: Against) -> dict[str, Any]:
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
        return number(d.value, 3)
    return f"{number(d.value, 3)} [{number(d.low, 3)}, {number(d.high, 3)}]{' *' if d.excludes(0) else ''}"


def _format_setting(value: Any) -> str:
    return "–" if value is None else label(value)
