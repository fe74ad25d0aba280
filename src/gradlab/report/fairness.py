"""The audit and the verdicts as tables and lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gradlab.analysis.claims.verdict import Verdict
from gradlab.analysis.formatting import number
from gradlab.audits.audit import Audit
from gradlab.report.charts import Chart
from gradlab.report.tables import Table

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
                parts.append(f"paired permutation test p = {number(reading.permutation, 2)}")
            if reading.bootstrap is not None:
                low, high = reading.bootstrap
                parts.append(f"bootstrap [{number(low, 3)}, {number(high, 3)}]")
            if parts:
                found.append(f"{verdict.claim.text} ({reading.label}): {', '.join(parts)}")
    return found


def mark_unfair(chart: Chart, audit: Audit | None) -> Chart:
    """The chart, with a warning if the comparison is not controlled."""
    if audit is None or audit.mark is None:
        return chart
    return replace(chart, warning=f"{audit.mark.upper()} (see the audit)")
