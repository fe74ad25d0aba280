"""A result in a few lines: what it rests on, what could explain it otherwise, how its claims came out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gradlab.analysis.claims.numbers import Comparison
from gradlab.analysis.claims.verdict import Verdict
from gradlab.audits.audit import Audit
from gradlab.spec.naming import Names
from gradlab.spec.numerals import counted
from gradlab.spec.phrasing import say_settings

MOST_CAVEATS = 2
"""Caveats that one line names; the report has all."""
NAMED, MOST_NAMED = ("direction only", "not reproduced"), 2
"""Outcomes whose claims the tally names, if they are few."""
OUTCOMES = (
    ("direction only", "in direction only"),
    ("not reproduced", "refuted"),
    ("not settled", "not settled"),
    ("not tested", "not tested"),
)


def describe_fairness(audit: Audit | None, names: Names) -> str:
    """Whether the arms differ in nothing but the factor; empty if that was not audited."""
    groups = len(names.groups)
    if audit is None or groups < 2:
        return ""
    if not audit.fair:
        return f"Not a controlled comparison: {'; '.join(audit.undeclared)}."
    if audit.identical:
        return "Nothing varies: the arms are identical in everything that was compared."
    which = "The two" if groups == 2 else f"The {groups} groups"
    varied = [path.partition(" ")[0] for path in audit.varied or audit.factor]  # a scale is named with its value
    blocks = [path for path in names.axes if not any(each == path or each.startswith(f"{path}.") for each in varied)]
    if blocks:
        shared = say_settings(blocks).removeprefix("the ")
        return f"{groups} groups: at the same {shared} they differ only in {say_settings(varied)}."
    only = f" ({audit.only_difference})" if groups == 2 and audit.only_difference else ""
    return f"{which} differ only in {say_settings(varied)}{only}."


def describe_caveats(audit: Audit | None, sequel: str | None) -> str:
    """What else could explain the result, in one line; empty if the audit knows of nothing."""
    if audit is None or not audit.caveats:
        return ""
    shown = "; ".join(audit.caveats[:MOST_CAVEATS])
    rest = len(audit.caveats) - MOST_CAVEATS
    more = f"; {rest} more in the report" if rest > 0 else ""
    controlled = f" The controlled study: `gradlab run {sequel}`." if sequel else ""
    return f"{'Caveat' if len(audit.caveats) == 1 else 'Caveats'}: {shown}{more}.{controlled}"


def _name_claims(verdicts: Sequence[Verdict], outcome: str) -> str:
    """The claims that do not hold, by their texts, if they are few."""
    texts = [f"“{verdict.claim.text}”" for verdict in verdicts if verdict.outcome == outcome]
    return f" ({'; '.join(texts)})" if outcome in NAMED and len(texts) <= MOST_NAMED else ""


def count_claims(verdicts: Sequence[Verdict], numbers: Sequence[Comparison]) -> str:
    """`8 of 9 claims hold, 1 is not settled; 16 of 17 published numbers match.`"""
    parts = []
    tested = [verdict for verdict in verdicts if verdict.outcome != "not tested"]
    if verdicts and not tested:
        parts.append(f"{counted(len(verdicts), 'claim')} not tested")
    elif verdicts:
        counts: Counter[str] = Counter(verdict.outcome for verdict in verdicts)
        others = [
            f"{counts[outcome]} {words}{_name_claims(verdicts, outcome)}"
            for outcome, words in OUTCOMES
            if counts[outcome]
        ]
        holds = f"{counts['reproduced']} of {counted(len(verdicts), 'claim')} hold{'s' * (len(verdicts) == 1)}"
        parts.append(", ".join([holds, *others]))
    compared = [row for row in numbers if row.outcome in ("consistent", "not consistent")]
    if compared:
        same = sum(row.outcome == "consistent" for row in compared)
        match = f"match{'es' * (len(compared) == 1)}"
        parts.append(f"{same} of {counted(len(compared), 'published number')} {match}")
    return f"{'; '.join(parts)}." if parts else ""
