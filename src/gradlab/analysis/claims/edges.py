"""Verdicts on tuned arms: one that rests on a value at the end of the range that was tried is not settled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gradlab.analysis.claims.verdict import Verdict
from gradlab.analysis.measured import Measured
from gradlab.plans.plan import Plan
from gradlab.plans.tuning import TuningPlan
from gradlab.spec.paths import label
from gradlab.spec.selection import chosen
from gradlab.spec.tuning import spoken


def leave_open_at_edges(measured: Measured, verdicts: Sequence[Verdict]) -> tuple[Verdict, ...]:
    """The verdicts; those that rest on an arm whose best value is at an edge are not settled, and say why."""
    plan = measured.plan
    tuning = plan.tuning if isinstance(plan, Plan) else None
    if tuning is None or not tuning.edges:
        return tuple(verdicts)
    return tuple(_left_open(measured, verdict, tuning) for verdict in verdicts)


def _left_open(measured: Measured, verdict: Verdict, tuning: TuningPlan) -> Verdict:
    if verdict.outcome == "not tested":
        return verdict
    rows = chosen(verdict.claim, [planned.group for planned in measured.plan.groups])
    arms = [arm for arm in dict.fromkeys(name for row in rows for name in row) if arm in tuning.edges]
    if not arms:
        return verdict
    reason = "; ".join(describe_edge(tuning, arm) for arm in arms)
    seen = "" if verdict.outcome == "not settled" else f" At these values it is {verdict.outcome}:"
    return replace(
        verdict, outcome="not settled", reason=f"{reason}.{seen} {verdict.reason}", needs=None, needs_most=None
    )


def describe_edge(tuning: TuningPlan, arm: str) -> str:
    """`the best learning rate of plain (0.1) is the largest that was tried: a value beyond it may be better`."""
    assert tuning.chosen is not None
    words = []
    for path in tuning.edges[arm]:
        value = tuning.chosen[arm].values[path]
        tried = [candidate.values[path] for candidate in tuning.of(arm)]
        end = "smallest" if value == min(tried) else "largest"
        words.append(f"the best {spoken(path)} of {arm} ({label(value)}) is the {end} that was tried")
    return f"{' and '.join(words)}: a value beyond it may be better"
