"""The result of an audit: two answers, the table behind them, and what the audit cannot see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

from pydantic import Field

from gradlab.audits.compare import Row, Status
from gradlab.facts import Fact
from gradlab.spec.stored import Stored

MARK = "not a controlled comparison"
FLAWED = "flawed study"
UNDECLARED_CODE = "undeclared_difference"
ONE_SEED = Fact(
    "one_seed", "One seed was looked at: whether a difference in results is luck, only several seeds can tell."
)
"""What holds for any comparison that was audited but not run."""
AT_START = "before any training"
"""Begins every caveat about the networks that training starts from; their codes are in `STARTS`."""
STARTS = ("init_gain", "output_scale")


@dataclass(frozen=True, repr=False)
class Audit:
    """1. Same set-up except the declared factor? 2. What can the design not attribute, even so?"""

    study: str
    factor: tuple[str, ...]
    compared: str
    """What was compared with what, in words."""
    arms: tuple[str, ...]
    rows: tuple[Row, ...]
    facts: tuple[Fact, ...]
    """Every difference that the factor does not explain, its trait as subject; then what the design cannot attribute.
    A problem of the latter kind is a flaw that all arms share."""
    only_difference: str | None
    """The difference in one line, if there is exactly one."""
    hashes: Mapping[str, Mapping[str, str]]
    """Arm -> trait -> hash or value, at the first seed."""
    suggestion: Mapping[str, Any] | None = None
    """A study that separates the causes, as a tree; None if there is nothing left to separate."""
    cannot_see: tuple[str, ...] = ()
    """What this audit cannot see, one sentence each."""
    varied: tuple[str, ...] = ()
    """The settings below the declared factor in which the arms differ."""
    identical: bool = False
    """Whether all arms are equal in everything that was compared."""
    caveats: tuple[str, ...] = ()
    """The limits that the audit found, one clause each."""
    tuned: str = ""
    """What each arm was tuned in and with which budget, as a sentence; empty if the study tunes nothing."""

    @property
    def undeclared(self) -> tuple[str, ...]:
        """Every difference that the factor does not explain, in words."""
        return tuple(fact.words for fact in self.facts if fact.code == UNDECLARED_CODE)

    @property
    def limits(self) -> tuple[str, ...]:
        """What the design cannot attribute, in sentences."""
        return tuple(fact.words for fact in self.facts if fact.code != UNDECLARED_CODE)

    @property
    def rivals(self) -> tuple[str, ...]:
        """The caveats without those about the start of training, which are how a factor acts."""
        return tuple(caveat for caveat in self.caveats if not caveat.startswith(AT_START))

    @property
    def fair(self) -> bool:
        """Answer 1."""
        return not self.undeclared

    @property
    def flaws(self) -> tuple[str, ...]:
        """Why results would not mean what the study says, although its arms are comparable: whole sentences."""
        problems = (fact for fact in self.facts if fact.severity == "problem" and fact.code != UNDECLARED_CODE)
        return tuple(fact.words for fact in problems)

    @property
    def passed(self) -> bool:
        """Whether the arms are comparable and the study has no flaw."""
        return self.fair and not self.flaws

    @property
    def faults(self) -> tuple[str, ...]:
        """Everything that fails the audit, without full stops."""
        return (*self.undeclared, *(flaw.removesuffix(".") for flaw in self.flaws))

    @property
    def findings(self) -> tuple[Fact, ...]:
        """Everything that was found; problems, which fail the audit, first."""
        return tuple(sorted(self.facts, key=lambda fact: fact.severity != "problem"))

    @property
    def mark(self) -> str | None:
        """The warning on reports and figures of an unfair or flawed study."""
        return MARK if not self.fair else FLAWED if self.flaws else None

    @property
    def answer(self) -> str:
        """Answer 1 in words."""
        factor = ", ".join(self.factor) or "none is declared"
        if not self.fair:
            differ = f"No. Besides the declared factor ({factor}) they differ in: {'; '.join(self.undeclared)}."
            return " ".join([differ, *self.flaws])
        if self.flaws:
            return " ".join(["No valid comparison, although the set-ups differ only as declared.", *self.flaws])
        if len(self.arms) < 2:
            return "Yes: there is one group, and nothing to compare it with."
        if self.identical and not self.tuned:
            return "Yes, but nothing varies: the arms are identical in everything that was compared."
        besides = " and the tuning" if self.tuned else ""
        sentences = [f"Yes: the set-ups are the same except for the declared factor ({factor}){besides}."]
        if self.only_difference:
            sentences.append(
                f"{'Besides the tuning, the' if self.tuned else 'The'} only difference: {self.only_difference}."
            )
        elif len(self.varied) > 1:
            sentences.append(f"{len(self.varied)} settings vary: {', '.join(self.varied)}.")
        return " ".join([*sentences, *([self.tuned] if self.tuned else [])])

    def __repr__(self) -> str:
        return f"<Audit of {self.study}: {self.answer[:200]}>"

    def _repr_html_(self) -> str:
        """Both answers, the table and what was not seen, for notebooks."""
        head = "".join(f"<th>{escape(name)}</th>" for name in ("what", *self._columns, ""))
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in (row.trait, *row.cells, row.status.text)) + "</tr>"
            for row in self.rows
        )
        html = (
            f"<p><b>Same set-up except the declared factor?</b> {escape(self.answer)}</p>"
            f"<p><b>What this design cannot attribute</b></p>{_html_list(self.limits)}"
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        )
        return html + f"<p><b>What this audit cannot see</b></p>{_html_list(self.cannot_see)}" * bool(self.cannot_see)

    @property
    def _columns(self) -> tuple[str, ...]:
        return self.arms if self.rows and len(self.rows[0].cells) == len(self.arms) else ("all groups",)

    def to_json(self) -> dict[str, Any]:
        """Both answers, the table and the hashes."""
        return {
            "study": self.study,
            "same_setup_except_factor": self.fair,
            "answer": self.answer,
            "factor": list(self.factor),
            "compared": self.compared,
            "arms": list(self.arms),
            "table": [{"trait": row.trait, "cells": list(row.cells), "status": row.status.value} for row in self.rows],
            "undeclared": list(self.undeclared),
            "only_difference": self.only_difference,
            "varied": list(self.varied),
            "identical": self.identical,
            "tuned": self.tuned or None,
            "cannot_attribute": list(self.limits),
            "caveats": list(self.caveats),
            "passed": self.passed,
            "findings": [fact.to_json() | {"fails": fact.severity == "problem"} for fact in self.findings],
            "cannot_see": list(self.cannot_see),
            "hashes": {arm: dict(hashes) for arm, hashes in self.hashes.items()},
        }

    @staticmethod
    def from_json(tree: Mapping[str, Any]) -> Audit:
        """An audit that was stored with a run; a `ValueError` names what does not fit."""
        saved = SavedAudit.fit(tree)
        rows = tuple(Row(row.trait, tuple(row.cells), Status(row.status)) for row in saved.table)
        widths = {len(row.cells) for row in rows}
        if widths - {1, len(saved.arms)} or len(widths) > 1:
            raise ValueError("table: its rows do not have a cell for each arm")
        facts = {found.words: found for found in saved.findings}
        return Audit(
            saved.study,
            tuple(saved.factor),
            saved.compared,
            tuple(saved.arms),
            rows,
            (
                *(_restored(words, facts, UNDECLARED_CODE) for words in saved.undeclared),
                *(_restored(words, facts, "limit") for words in saved.cannot_attribute),
            ),
            saved.only_difference,
            saved.hashes,
            cannot_see=tuple(saved.cannot_see),
            varied=tuple(saved.varied),
            identical=saved.identical,
            caveats=tuple(saved.caveats),
            tuned=saved.tuned or "",
        )


class SavedRow(Stored):
    """A row of the table."""

    trait: str
    cells: list[str]
    status: str


class SavedFinding(Stored):
    """A finding of a stored audit."""

    code: str
    words: str
    fails: bool
    subject: str = ""
    numbers: dict[str, float | str] = Field(default_factory=dict)


class SavedAudit(Stored):
    """What `audit.json` holds."""

    study: str
    factor: list[str]
    compared: str
    arms: list[str]
    table: list[SavedRow]
    undeclared: list[str]
    only_difference: str | None
    cannot_attribute: list[str]
    hashes: dict[str, dict[str, str]]
    cannot_see: list[str]
    varied: list[str]
    identical: bool
    caveats: list[str]
    tuned: str | None
    findings: list[SavedFinding] = Field(default_factory=list)
    """Some published results (docs/results) were audited before there were codes."""


def _restored(words: str, findings: Mapping[str, SavedFinding], code: str) -> Fact:
    """The fact behind a sentence; of a kind that has no finding, or of an early audit, only its code is known."""
    found = findings.get(words)
    if found is None:
        return Fact(code, words, severity="problem" if code == UNDECLARED_CODE else "caution")
    numbers = {name: float(value) for name, value in found.numbers.items()}
    return Fact(found.code, words, found.subject, "problem" if found.fails else "caution", numbers)


def _html_list(sentences: tuple[str, ...]) -> str:
    return f"<ul>{''.join(f'<li>{escape(sentence)}</li>' for sentence in sentences)}</ul>"
