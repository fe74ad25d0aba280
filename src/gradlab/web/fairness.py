"""The audit of a page in one line: do the two networks differ only in the factor?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradlab.audits.audit import Audit
from gradlab.audits.study import audit_plan
from gradlab.plans.plan import Plan
from gradlab.web.settings import Settings, call_setting

ONE_SEED = "one seed: a difference may be luck"
"""Holds for every page; a study with more seeds answers it."""


def audit_page(settings: Settings, plan: Plan) -> dict[str, Any]:
    """What the page shows above everything else."""
    audit = audit_plan(plan)
    state, line = describe_line(settings, audit)
    return {
        "state": state,
        "line": line,
        "details": [*map(_sentence, audit.undeclared), *(_sentence(words) for words in audit.caveats)],
        "only": audit.only_difference,
    }


def describe_line(settings: Settings, audit: Audit) -> tuple[str, str]:
    """`fair`, `mixed`, `unfair` or `same`, and the sentence that says so."""
    differing = settings.differing
    others = [name for name in differing if name != settings.factor]
    if not audit.fair and settings.factor != "all":
        besides = _list(others) if others else "; ".join(audit.undeclared)
        factor = call_setting(settings.factor)
        if settings.factor in differing:
            return "unfair", f"Not fair: besides the {factor} they differ in {besides}."
        return "unfair", f"Not fair: they should differ in the {factor}, but they differ in {besides}."
    if not audit.fair:
        return "unfair", f"Not fair: they differ in {'; '.join(audit.undeclared)}."
    if audit.identical or not differing:
        return "same", "The two are identical: their curves coincide."
    if len(differing) > 1:
        return "mixed", f"They differ in {_list(differing)}, so no difference between them has a single cause."
    return "fair", f"Fair: they differ only in the {call_setting(differing[0])}."


def _list(names: Sequence[str]) -> str:
    words = [f"the {call_setting(name)}" for name in names]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}{'' if words.endswith('.') else '.'}"
